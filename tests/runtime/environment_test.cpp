#include "bigmac/runtime/environment.h"

#include <gtest/gtest.h>

#include <map>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

using Variables = std::map<std::string, std::string>;

GetVariable in(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}
Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

void expect_refusal(const Variables& variables, const std::string& part) {
  try {
    auto environment = read_environment(in(variables));
    ADD_FAILURE() << "read; expected a refusal that says '" << part << "'";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

const Variables kTorchrun{
    {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "gpu07"}, {"MASTER_PORT", "1234"}};
const Variables kSlurm{{"SLURM_PROCID", "3"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_ID", "71"},
                       {"SLURM_JOB_NODELIST", "gpu[07-09,12],login1"}};
const Variables kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "gpu07"}};
const Variables kPmi{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MASTER_ADDR", "gpu07"}};

void expect_rank_3_of_4(const Variables& variables, const std::string& launcher, const std::string& address,
                        int port, bool hosted = false) {
  auto environment = read_environment(in(variables));
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->rank, 3);
  EXPECT_EQ(environment->size, 4);
  EXPECT_EQ(environment->launcher, launcher);
  EXPECT_EQ(environment->address, address);
  EXPECT_EQ(environment->port, port);
  EXPECT_EQ(environment->hosted, hosted);
}

TEST(Environment, IsNothingWhereNoLauncherSetIt) {
  EXPECT_FALSE(read_environment(in({})));
  EXPECT_FALSE(
      read_environment(in({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"SLURM_JOB_NODELIST", "n1"}})));
}

TEST(Environment, OfAShellInsideASlurmAllocationIsNothing) {
  EXPECT_FALSE(read_environment(in(without(kSlurm, "SLURM_STEP_ID"))));
}

TEST(Environment, OfTorchrun) {
  expect_rank_3_of_4(kTorchrun, "torchrun", "gpu07", 1234);
  expect_rank_3_of_4(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"), "torchrun", "gpu07", 1234,
                     true);
  expect_rank_3_of_4(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False"), "torchrun", "gpu07", 1234);
}

TEST(Environment, OfTorchrunIsTakenBeforeSlurms) {
  auto both = kSlurm;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  expect_rank_3_of_4(both, "torchrun", "gpu07", 1234);
}

TEST(Environment, OfSlurmMeetsOnTheFirstNodeAtAPortOfTheJob) {
  expect_rank_3_of_4(kSlurm, "slurm", "gpu07", 20071);
  expect_rank_3_of_4(with(kSlurm, "SLURM_STEP_NODELIST", "gpu09,gpu12"), "slurm", "gpu09", 20071);
  expect_rank_3_of_4(with(with(kSlurm, "MASTER_ADDR", "head"), "MASTER_PORT", "99"), "slurm", "head", 99);
  auto port = read_environment(in(with(kSlurm, "SLURM_JOB_ID", "2147483647")))->port;
  EXPECT_GE(port, 1024);
  EXPECT_LE(port, 65535);
}

TEST(Environment, OfMpirun) {
  expect_rank_3_of_4(kOpenMpi, "mpirun", "gpu07", 29500);
  expect_rank_3_of_4(with(kOpenMpi, "MASTER_PORT", "77"), "mpirun", "gpu07", 77);
  expect_rank_3_of_4(with(without(kOpenMpi, "MASTER_ADDR"), "OMPI_COMM_WORLD_LOCAL_SIZE", "4"), "mpirun",
                     "127.0.0.1", 29500);
  expect_rank_3_of_4(kPmi, "mpirun", "gpu07", 29500);
}

TEST(Environment, MayHaveOneRank) {
  auto environment = read_environment(in(with(with(kTorchrun, "RANK", "0"), "WORLD_SIZE", "1")));
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->rank, 0);
  EXPECT_EQ(environment->size, 1);
}

TEST(Environment, NamesTheVariableThatIsMissing) {
  for (const auto& [name, value] : kTorchrun) expect_refusal(without(kTorchrun, name), name + " is missing");
  for (const auto* name : {"SLURM_NTASKS", "SLURM_JOB_NODELIST"})
    expect_refusal(without(kSlurm, name), std::string(name) + " is missing");
  for (const auto* name : {"OMPI_COMM_WORLD_SIZE", "MASTER_ADDR"})
    expect_refusal(without(kOpenMpi, name), std::string(name) + " is missing");
  expect_refusal(with(without(kOpenMpi, "MASTER_ADDR"), "OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
                 "MASTER_ADDR is missing");
  for (const auto* name : {"PMI_SIZE", "MASTER_ADDR"})
    expect_refusal(without(kPmi, name), std::string(name) + " is missing");
}

TEST(Environment, NamesTheVariableThatIsMalformedAndItsValue) {
  for (const auto* value : {"", "x", "3x", " 3", "-1", "4", "1e1", "99999999999999999999"}) {
    auto said = concat(", got '", value, "'");
    expect_refusal(with(kTorchrun, "RANK", value), "RANK must be a number from 0 to 3" + said);
    expect_refusal(with(kSlurm, "SLURM_PROCID", value), "SLURM_PROCID must be a number from 0 to 3" + said);
    expect_refusal(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", value),
                   "OMPI_COMM_WORLD_RANK must be a number from 0 to 3" + said);
    expect_refusal(with(kPmi, "PMI_RANK", value), "PMI_RANK must be a number from 0 to 3" + said);
  }
  for (const auto* value : {"", "0", "-4", "four", "2147483648"}) {
    expect_refusal(with(kTorchrun, "WORLD_SIZE", value), "WORLD_SIZE must be a number from 1");
    expect_refusal(with(kSlurm, "SLURM_NTASKS", value), "SLURM_NTASKS must be a number from 1");
  }
  for (const auto* value : {"", "0", "65536", "http"}) {
    expect_refusal(with(kTorchrun, "MASTER_PORT", value), "MASTER_PORT must be a number from 1 to 65535");
    expect_refusal(with(kSlurm, "MASTER_PORT", value), "MASTER_PORT must be a number from 1 to 65535");
    expect_refusal(with(kPmi, "MASTER_PORT", value), "MASTER_PORT must be a number from 1 to 65535");
  }
  expect_refusal(with(kTorchrun, "MASTER_ADDR", ""), "MASTER_ADDR");
  expect_refusal(with(kSlurm, "SLURM_JOB_ID", "x"), "SLURM_JOB_ID must be a number");
  expect_refusal(with(kSlurm, "SLURM_JOB_NODELIST", "gpu[07-09"), "'gpu[07-09'");
}

TEST(FirstHost, OfASlurmNodeList) {
  EXPECT_EQ(first_host("gpu[07-09,12],login1"), "gpu07");
  EXPECT_EQ(first_host("gpu[12,07-09]"), "gpu12");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("login1,gpu[07-09]"), "login1");
  EXPECT_EQ(first_host("rack[1-2]-n[03-04].x,login1"), "rack1-n03.x");
}

}  // namespace
}  // namespace bigmac
