#include "bigmac/runtime/environment.h"

#include <charconv>
#include <cstdlib>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr int kDefaultPort = 29500;

int number(const GetVariable& get, const std::string& variable, int low, int high) {
  auto text = get(variable);
  if (!text) throw InvalidInput(concat("[launch] the environment variable ", variable, " is missing"));
  int value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < low || value > high)
    throw InvalidInput(concat("[launch] the environment variable ", variable, " must be a number from ", low,
                              " to ", high, ", got '", *text, "'"));
  return value;
}

int port(const GetVariable& get, int otherwise) {
  return get("MASTER_PORT") ? number(get, "MASTER_PORT", 1, 65535) : otherwise;
}

std::string address(const GetVariable& get) {
  auto text = get("MASTER_ADDR");
  if (!text || text->empty()) throw InvalidInput("[launch] the environment variable MASTER_ADDR is missing");
  return *text;
}

void set_ranks(Environment& environment, const GetVariable& get, const std::string& rank,
               const std::string& size) {
  environment.size = number(get, size, 1, 1 << 20);
  environment.rank = number(get, rank, 0, environment.size - 1);
}

}  // namespace

GetVariable process_environment() {
  return [](const std::string& variable) -> std::optional<std::string> {
    const char* value = std::getenv(variable.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::string first_host(const std::string& node_list) {
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    auto close = node_list.find(']', at);
    if (close == std::string::npos)
      throw InvalidInput(concat("[launch] the node list has a '[' without a ']': '", node_list, "'"));
    auto range = node_list.substr(at + 1, close - at - 1);
    host += range.substr(0, range.find_first_of(",-"));
    at = close;
  }
  return host;
}

std::optional<Environment> read_environment(const GetVariable& get) {
  Environment environment;
  if (get("RANK") || get("WORLD_SIZE")) {
    environment.launcher = "torchrun";
    set_ranks(environment, get, "RANK", "WORLD_SIZE");
    environment.address = address(get);
    environment.port = number(get, "MASTER_PORT", 1, 65535);
    environment.hosted = get("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return environment;
  }
  // A shell inside an allocation has SLURM_PROCID too; a step that srun started has its step's number.
  if (get("SLURM_PROCID") && get("SLURM_STEP_ID")) {
    environment.launcher = "slurm";
    set_ranks(environment, get, "SLURM_PROCID", "SLURM_NTASKS");
    auto nodes = get("SLURM_STEP_NODELIST") ? get("SLURM_STEP_NODELIST") : get("SLURM_JOB_NODELIST");
    if (get("MASTER_ADDR"))
      environment.address = address(get);
    else if (nodes && !nodes->empty())
      environment.address = first_host(*nodes);
    else
      throw InvalidInput("[launch] the environment variable SLURM_JOB_NODELIST is missing");
    int from_job =
        get("SLURM_JOB_ID") ? 20000 + number(get, "SLURM_JOB_ID", 0, INT32_MAX) % 20000 : kDefaultPort;
    environment.port = port(get, from_job);
    return environment;
  }
  bool open_mpi = get("OMPI_COMM_WORLD_RANK").has_value();
  if (open_mpi || get("PMI_RANK")) {
    environment.launcher = "mpirun";
    if (open_mpi)
      set_ranks(environment, get, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    else
      set_ranks(environment, get, "PMI_RANK", "PMI_SIZE");
    bool local = open_mpi && get("OMPI_COMM_WORLD_LOCAL_SIZE") == get("OMPI_COMM_WORLD_SIZE");
    environment.address = local && !get("MASTER_ADDR") ? "127.0.0.1" : address(get);
    environment.port = port(get, kDefaultPort);
    return environment;
  }
  return std::nullopt;
}

}  // namespace bigmac
