#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/workload_files.h"

namespace bigmac {
namespace {

using nlohmann::json;

json plan(const std::string& arguments, int exit_code = 0) {
  auto outcome = run_bigmac("plan --json " + kSmall + " " + arguments);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  return json::parse(outcome.out);
}

std::string nothing_legal(const std::string& reasons) {
  return "[plan] no configuration of 'small' is legal:" + reasons;
}

TEST(PlanCommand, PrintsTheBestWhyAlternativesLessMemoryAndWhatIsNotPossible) {
  auto outcome = run_bigmac("plan " + kSmall);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(
      outcome.out.find("small on 8 A100 of 40.0 GiB\n4 samples a GPU, 32 in a step; --samples-per-gpu takes "
                       "another (8, 16)\n"),
      0u);
  const std::string stages =
      "more stages than layers  PP 4 * VPP 8 = 32 stages, 'backbone' has 30 layers with its embedding and "
      "head\n";
  for (const std::string& part : std::vector<std::string>{
           "\n\nthe shortest steps\n", "\n\nthe first one\n  microbatches  ", "\n  layers        Et",
           "\n  step          backbone ", " GiB  by pipeline rank; rank ",
           "\n\none choice another, the rest as it is: step, memory\n  schedule ",
           "\n\nless memory: the shortest step within it, ",
           "\n\nnot possible: how many, why, the first of them\n", stages})
    EXPECT_TRUE(contains(outcome.out, part));
}

TEST(PlanCommand, PrintsLinesThatFitATerminalOf150Columns) {
  std::istringstream lines(run_bigmac("plan " + kSmall).out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 150u) << line;
}

TEST(PlanCommand, GivesAllOfItAsJson) {
  auto report = plan("");
  EXPECT_EQ(report["workload"], "small");
  EXPECT_EQ(report["gpus"], 8);
  EXPECT_EQ(report["memory_limit"], 40.0 * (1 << 30));
  EXPECT_EQ(report["samples_per_gpu"], 4);
  ASSERT_EQ(report["best"].size(), 10u);
  double step = 0;
  for (const auto& one : report["best"]) {
    EXPECT_GE(one["step"], step);
    step = one["step"];
    EXPECT_LE(one["memory"], report["memory_limit"]);
    const auto& c = one["configuration"];
    EXPECT_EQ(c["tensor"].get<int>() * c["pipeline"].get<int>() * c["data"].get<int>(), 8);
    EXPECT_EQ(one["microbatches"].get<int>() * c["data"].get<int>() * c["microbatch"].get<int>(), 32);
    int layers = 0;
    for (int count : c["layers"]) layers += count;
    EXPECT_EQ(layers, 30);
  }
}

TEST(PlanCommand, SaysWhereTheBestStepsTimeAndMemoryGo) {
  auto report = plan("--tp 1,2 --ep 1");
  const auto& best = report["best"][0];
  const auto& explain = report["explain"];
  double seconds = 0, bytes = 0;
  for (const auto& [part, value] : explain["seconds"].items()) {
    EXPECT_GE(value, 0) << part;
    seconds += value.get<double>();
  }
  EXPECT_NEAR(seconds, best["step"], 1e-9);
  for (const auto& holder : explain["holders"]) bytes += holder["bytes"].get<double>();
  EXPECT_NEAR(bytes, best["memory"], 1);
  EXPECT_EQ(best["memory_by_rank"][explain["fullest_rank"].get<size_t>()], best["memory"]);
}

TEST(PlanCommand, KnowsNoOtherChoiceThatIsShorterThanTheBest) {
  auto report = plan("");
  double step = report["best"][0]["step"];
  std::set<std::string> names;
  for (const auto& choice : report["explain"]["choices"]) {
    names.insert(choice["choice"]);
    for (const auto& other : choice["others"]) {
      EXPECT_NE(other["value"], choice["value"]);
      EXPECT_NE(other.contains("outcome"), other.contains("why_not"));
      bool fits = other.contains("outcome") && other["outcome"]["fits"];
      EXPECT_TRUE(!fits || other["outcome"]["step"] >= step * (1 - 1e-6)) << other;
    }
  }
  for (const char* name : {"schedule", "base", "PP", "MBS", "recompute backbone", "recompute image"})
    EXPECT_TRUE(names.count(name)) << name;
}

TEST(PlanCommand, FindsTheSameWhateverTheThreadsAndHowManyArePrinted) {
  auto best = plan("--threads 1")["best"];
  EXPECT_EQ(plan("--threads 3")["best"], best);
  EXPECT_EQ(plan("--best 1")["best"], json::array({best[0]}));
}

TEST(PlanCommand, ShowsAsMuchOfTheFrontierAsAskedForAndAllOfItInJson) {
  auto all = plan("--frontier 0")["frontier"].size();
  ASSERT_GT(all, 4u);
  auto lines = [](const std::string& arguments) {
    auto out = run_bigmac("plan " + kSmall + " " + arguments).out;
    auto at = out.find("less memory");
    if (at == std::string::npos) return 0;
    int count = 0;
    std::istringstream text(out.substr(at));
    for (std::string line; std::getline(text, line) && !line.empty();)
      count += line.find(" ms ") != std::string::npos || line.find(" s ") != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_EQ(lines("--frontier 0"), 0);
  EXPECT_EQ(lines("--frontier 1"), 1);
  EXPECT_GT(lines("--frontier 4"), 1);
  EXPECT_LE(lines("--frontier 4"), 4);
  EXPECT_EQ(lines("--frontier 1000"), int(all));
}

TEST(PlanCommand, SearchesOnlyWhatOptionsLeave) {
  auto report = plan(
      "--schedule nested --base interleaved --tp 2 --pp 2,4 --vpp 2 --ep 1 --microbatch 2 "
      "--recompute selective --recompute image=full --best 1000 --samples-per-gpu 8");
  ASSERT_GT(report["best"].size(), 0u);
  for (const auto& one : report["best"]) {
    auto c = one["configuration"];
    EXPECT_TRUE(c["pipeline"] == 2 || c["pipeline"] == 4);
    EXPECT_EQ(c["schedule"], "nested");
    EXPECT_EQ(c["base"], "interleaved");
    EXPECT_EQ(c["tensor"], 2);
    EXPECT_EQ(c["chunks"], 2);
    EXPECT_EQ(c["microbatch"], 2);
    EXPECT_EQ(c["recompute"], (json{{"backbone", "selective"}, {"image", "full"}}));
  }
}

TEST(PlanCommand, TakesOtherGpusHardwareAndMemory) {
  auto report = plan("--gpus 16 --hardware H200 --memory 100GB");
  EXPECT_EQ(report["gpus"], 16);
  EXPECT_EQ(report["hardware"], "H200");
  EXPECT_EQ(report["memory_limit"], 100e9);
}

TEST(PlanCommand, EndsWithOneWhereNothingFitsAndSaysWhatFillsTheRank) {
  auto outcome = run_bigmac("plan " + kSmall + " --memory 4GiB");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bigmac: error: no configuration fits into memory\n");
  EXPECT_TRUE(contains(outcome.out, "\nnothing fits; what comes nearest by its lower bound:\n"));
  EXPECT_TRUE(contains(outcome.out, " of 4.00 GiB"));
  EXPECT_TRUE(contains(outcome.out, "  2.00 GiB  reserved\n"));
  auto report = plan("--memory 4GiB", 1);
  EXPECT_EQ(report["best"], json::array());
  EXPECT_GT(report["least_memory"]["memory"], report["memory_limit"]);
  EXPECT_TRUE(contains(report["why_not"], "out of memory on rank "));
}

TEST(PlanCommand, DrawsAndTracesTheBestStep) {
  TemporaryFile svg("plan.svg"), png("plan.png"), trace("plan.json");
  EXPECT_EQ(run_bigmac("plan " + kSmall + " --picture " + svg.path() + " --trace " + trace.path()).exit_code,
            0);
  EXPECT_EQ(run_bigmac("plan " + kSmall + " --picture " + png.path()).exit_code, 0);
  EXPECT_TRUE(contains(svg.text(), "small on 8 A100 of 40.0 GiB: "));
  EXPECT_EQ(png.text().substr(1, 3), "PNG");
  double end = 0;
  auto events = json::parse(trace.text());
  double held = 0;
  for (const auto& event : events["traceEvents"]) {
    if (event.contains("dur")) end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
    if (event["ph"] == "C") held = std::max(held, event["args"]["bytes"].get<double>());
  }
  auto best = plan("--best 1")["best"][0];
  EXPECT_NEAR(end * 1e-6, best["pipeline"], 1e-5);
  EXPECT_NEAR(held, best["memory"].get<double>(), 0.25 * held);
}

TEST(PlanCommand, ShowsABarOnATerminalAndNoneElsewhere) {
  auto terminal = run_bigmac("plan " + kSmall, {Stdout::terminal});
  EXPECT_EQ(terminal.exit_code, 0);
  EXPECT_TRUE(contains(terminal.out, "\033[Kplan ......"));
  EXPECT_FALSE(contains(run_bigmac("plan " + kSmall).out, "\r"));
}

TEST(PlanCommand, EndsQuietlyWhereItsReaderGoesAway) {
  for (const char* command : {"plan ", "compare --samples-per-gpu 4 "}) {
    auto outcome = run_bigmac(command + kSmall, {Stdout::pipe_without_reader});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(PlanCommand, NeedsWholeNodes) {
  expect_wrong("plan --gpus 12 " + kSmall, "--gpus must be whole nodes of 8 GPUs, got 12; take 8 or 16");
  expect_wrong("plan --gpus 0 " + kSmall, "--gpus must be a whole number from 1 to 268435456, got '0'");
  WrittenFile file("gpus.yaml", small_with("gpus: 8\n", "gpus: 12\n"));
  expect_wrong({"plan", file.path()},
               file.path() + ":38:9: cluster.gpus must be whole nodes of 8 GPUs (8 or 16), got 12");
}

TEST(PlanCommand, NeedsGpusThatShardedModulesDivide) {
  WrittenFile file("shard.yaml", small_with("    items:", "    shard: 8\n    items:"));
  expect_wrong({"plan", "--gpus", "4", file.path()},
               "--gpus: 'image' is shared out over 8 GPUs, which 4 do not divide by");
}

TEST(PlanCommand, NamesTheNumbersWhereNothingIsLegal) {
  expect_wrong(
      "plan --samples-per-gpu 3 --pp 2 --microbatch 4 " + kSmall,
      nothing_legal(
          "\n  27 times: nested 1f1b TP1 PP2 VPP1 DP4 EP1 MBS4: a global batch of 24 samples does not "
          "divide by DP 4 * 4 samples a microbatch = 16"));
  expect_wrong(
      "plan --pp 3 " + kSmall,
      nothing_legal("\n  81 times: nested 1f1b TP1 PP3 VPP1 DP2 EP1 MBS1: TP 1 * PP 3 * DP 2 = 6 GPUs, the "
                    "cluster has 8"));
  expect_wrong(
      "plan --ep 2 " + kSmall,
      nothing_legal("\n  243 times: nested 1f1b TP1 PP2 VPP1 DP4 EP2 MBS1: EP 2: 'backbone' has no experts; "
                    "take EP 1"));
  expect_wrong(
      "plan --schedule llm-only --pp 2 " + kSmall,
      nothing_legal(
          "\n  27 times: llm-only 1f1b TP1 PP2 VPP1 DP4 EP1 MBS1: llm-only leaves out the workload's "
          "encoders and generators"));
  expect_wrong(
      "plan --base 1f1b --vpp 2 " + kSmall,
      nothing_legal(" no base of the search goes with its numbers of chunks (VPP), or no split has as many "
                    "stages"));
}

TEST(PlanCommand, NamesBothNumbersOfASplitThatDoesNotAddUp) {
  WrittenFile list("list.yaml", small_with("[2, 4, 8]", "[2, 4, 8]", "  splits: [[15, 14]]\n"));
  expect_wrong({"plan", list.path()},
               list.path() + ":46:12: search.splits: [split] holds 29 layers, the model has 28");
  WrittenFile layout("layout.yaml", small_with("[2, 4, 8]", "[2, 4, 8]", "  splits: ['Et*13|t*14,L']\n"));
  expect_wrong({"plan", layout.path()},
               layout.path() + ":46:12: search.splits: [layout] holds 27 layers, the model has 28");
}

TEST(PlanCommand, NamesUnknownFieldsWithTheNearestKnownOneAndTheirPlace) {
  WrittenFile top("top.yaml", small_with("\ntokens:", "\ntokns:"));
  expect_wrong(
      {"plan", top.path()},
      top.path() +
          ":3:1: unknown key 'tokns' (did you mean 'tokens'?); known: tokens, samples_per_gpu, backbone, "
          "cluster, name, seed, shard_optimizer, precision, search, encoders, generators");
  WrittenFile module("module.yaml", small_with("    items:", "    itmes:"));
  expect_wrong(
      {"plan", module.path()},
      module.path() +
          ":28:5: unknown key of encoders[0] 'itmes' (did you mean 'items'?); known: name, part, model, "
          "efficiency, frozen, recompute, expert_imbalance, items, shard");
}

TEST(PlanCommand, RefusesSizesThatAreNone) {
  for (const char* value : {"-4", ".nan", "nan", "1e400", "x"}) {
    WrittenFile file("size.yaml", small_with("tokens: 1024 ", std::string("tokens: ") + value + " "));
    expect_wrong(
        {"plan", file.path()},
        file.path() +
            ":32:15: encoders[0].items.tokens: must be a whole number such as 8192, 8K or 1M, got '" + value +
            "'");
  }
  WrittenFile zero("zero.yaml", small_with("tokens: 1024 ", "tokens: 0 "));
  expect_wrong({"plan", zero.path()},
               zero.path() + ":32:15: encoders[0].items.tokens must be from 1 to 1000000000, got 0");
  WrittenFile batch("batch.yaml", small_with("[4, 8, 16]", "0"));
  expect_wrong({"plan", batch.path()}, batch.path() + ":4:18: samples_per_gpu: must be from 1 to 1M, got 0");
}

TEST(PlanCommand, RefusesMemoryThatIsNoneOrReserved) {
  for (const char* value : {"nan", "-5GiB", "80XB", "inf", ""})
    expect_wrong(
        {"plan", kSmall, "--memory", value},
        std::string("--memory: must be bytes such as 80GiB, 512MiB, 80GB or 4096, got '") + value + "'");
  expect_wrong("plan --memory 2GiB " + kSmall,
               "--memory must be more than the 2.00 GiB that the workload reserves, got 2.00 GiB");
  expect_wrong("plan --memory 80 " + kSmall,
               "--memory must be more than the 2.00 GiB that the workload reserves, got 80 bytes");
}

TEST(PlanCommand, NamesTheNearestOfWhatItKnows) {
  expect_wrong(
      "plan --schedule nestd " + kSmall,
      "--schedule: unknown schedule 'nestd' (did you mean 'nested'?); known: llm-only, nested, nested-fill, "
      "three-phase, optimus, megatron, disttrain");
  expect_wrong(
      "plan --base 1f1b,interleavd " + kSmall,
      "--base: unknown base schedule 'interleavd' (did you mean 'interleaved'?); known: gpipe, 1f1b, "
      "interleaved, zb-h1, zb-v, dualpipe-v");
  expect_wrong("plan --hardware H8000 " + kSmall,
               "--hardware: unknown hardware 'H8000' (did you mean 'H800'?); known: H800, H100, H200, A100");
  expect_wrong("plan --recompute imag=full " + kSmall,
               "--recompute: unknown module 'imag' (did you mean 'image'?); known: backbone, image");
  expect_wrong("plan --recompute ful " + kSmall,
               "--recompute: unknown recompute 'ful' (did you mean 'full'?); known: none, selective, full");
  expect_wrong(
      "plan --sample-per-gpu 8 " + kSmall,
      "unknown option '--sample-per-gpu' (did you mean '--samples-per-gpu'?); see bigmac plan --help");
}

TEST(PlanCommand, LooksAtOneBatch) {
  expect_wrong("plan --samples-per-gpu 4,8 " + kSmall,
               "--samples-per-gpu: plan looks at one batch; give one number (compare takes several)");
  expect_wrong("plan --samples-per-gpu 131073 " + kSmall,
               "131073 samples a GPU on 8 GPUs are more than 1048576 in a step; take 131072 or fewer");
  expect_wrong("plan --tp 1,2,1 " + kSmall, "--tp has '1' twice");
  expect_wrong("plan --tp 1, " + kSmall, "--tp must be a whole number from 1 to 268435456, got ''");
  expect_wrong("plan --threads 1025 " + kSmall,
               "--threads must be a whole number from 1 to 1024, got '1025'");
}

TEST(PlanCommand, RefusesFilesThatAreNotThereOrNoWorkloads) {
  for (const std::string command : {"plan", "compare"}) {
    expect_wrong(command + " nowhere.yaml", "cannot read 'nowhere.yaml': No such file or directory");
    expect_wrong(command + " /", "cannot read '/': it is a folder; right would be a workload's YAML");
    expect_wrong(command, "WORKLOAD is required; see bigmac " + command + " --help");
  }
  WrittenFile large("large.yaml", "tokens: 8K\n");
  std::filesystem::resize_file(large.path(), 100'000'000);
  auto begin = std::chrono::steady_clock::now();
  expect_wrong({"plan", large.path()}, "cannot read '" + large.path() + "': it has more than 1048576 bytes");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(PlanCommand, SaysBeforeTheSearchThatAFileCannotBeWritten) {
  for (const char* option : {"--picture /nonexistent/step.svg", "--trace /nonexistent/step.svg"}) {
    auto outcome = run_bigmac(std::string("plan ") + option + " " + kSmall);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err,
              "bigmac: error: cannot write '/nonexistent/step.svg': No such file or directory\n");
  }
  expect_wrong("plan --picture step.pdf " + kSmall, "--picture must end with .svg or .png, got 'step.pdf'");
}

}  // namespace
}  // namespace bigmac
