#include "apps/bigmac/sample_command.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/console.h"
#include "apps/bigmac/progress.h"
#include "bigmac/data/png.h"
#include "bigmac/train/sample.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Lets a trained model say what it sees on held-out pictures and draw held-out names, neither of which it "
    "was "
    "trained on, and says how much better than chance it does.";

constexpr char kExamples[] =
    "Example:\n"
    "  bigmac sample out/emoji/weights.safetensors";

struct SampleArguments {
  std::string weights;
  int64_t captions = 12;
  int64_t pictures = 12;
  int64_t judged = 100;
  int64_t steps = 8;
  int64_t seed = 1;
  bool json = false;
  std::optional<std::string> output;
};

// Held-out pairs spread evenly over the list.
std::vector<int64_t> pick(const std::vector<int64_t>& held_out, int64_t count) {
  auto available = int64_t(held_out.size());
  count = std::min(count, available);
  std::vector<int64_t> picked;
  for (int64_t i = 0; i < count; ++i) picked.push_back(held_out[size_t(i * available / count)]);
  return picked;
}

std::vector<std::string> names_of(const data::Dataset& dataset, const std::vector<int64_t>& indices) {
  std::vector<std::string> names;
  for (int64_t index : indices) names.push_back(dataset.pairs()[size_t(index)].name);
  return names;
}

void write_grid(const std::string& path, const data::Dataset& dataset, const std::vector<int64_t>& indices,
                const torch::Tensor& drawn, int64_t shown) {
  std::vector<std::vector<data::Picture>> rows(2);
  std::vector<std::vector<std::string>> labels(2);
  for (int64_t i = 0; i < shown; ++i) {
    rows[0].push_back(data::to_picture(dataset.picture(indices[size_t(i)])));
    labels[0].push_back(dataset.pairs()[size_t(indices[size_t(i)])].name);
    rows[1].push_back(data::to_picture(drawn[i]));
    labels[1].push_back("drawn");
  }
  data::write_png(path, data::picture_grid(rows, labels));
}

void run(const SampleArguments& arguments) {
  auto trained = train::load_model(arguments.weights);
  auto dataset = data::load_dataset(trained.config.data);
  auto judged =
      pick(dataset.held_out(), std::max({arguments.judged, arguments.captions, arguments.pictures}));
  auto names = names_of(dataset, judged);
  auto grid = arguments.output.value_or(
      (std::filesystem::path(arguments.weights).parent_path() / "pictures.png").string());

  std::vector<std::string> captions;
  torch::Tensor drawn;
  {
    Progress progress("sampling", int64_t(judged.size()) + 1);
    captions = train::write_captions(*trained.model, dataset, judged);
    std::vector<torch::Tensor> pictures;
    for (size_t i = 0; i < judged.size(); ++i) {
      progress.done(int64_t(i) + 1, "drawing " + names[i]);
      pictures.push_back(train::draw_pictures(*trained.model, dataset, {judged[i]}, arguments.steps,
                                              uint64_t(arguments.seed) + i));
    }
    drawn = torch::cat(pictures);
  }
  std::vector<torch::Tensor> real;
  for (int64_t index : judged) real.push_back(dataset.picture(index));
  auto said = train::compare_captions(captions, names);
  auto seen = train::compare_pictures(drawn, torch::stack(real));
  int64_t shown = std::min(arguments.pictures, int64_t(judged.size()));
  // Shown pairs are spread over the judged ones, which the list orders by kind.
  std::vector<int64_t> places(judged.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = int64_t(i);
  auto shown_places = pick(places, shown);
  std::vector<int64_t> shown_indices;
  std::vector<torch::Tensor> shown_drawn;
  for (int64_t place : shown_places) {
    shown_indices.push_back(judged[size_t(place)]);
    shown_drawn.push_back(drawn[place]);
  }
  write_grid(grid, dataset, shown_indices, torch::stack(shown_drawn), shown);

  if (arguments.json) {
    nlohmann::ordered_json json{
        {"judged", judged.size()},
        {"captions", {{"word_f1", said.own}, {"chance", said.chance}, {"won", said.won}}},
        {"pictures", {{"squared_distance", seen.own}, {"chance", seen.chance}, {"won", seen.won}}},
        {"grid", grid},
        {"said", nlohmann::ordered_json::array()}};
    for (size_t i = 0; i < judged.size(); ++i)
      json["said"].push_back({{"name", names[i]}, {"said", captions[i]}});
    write_stdout(json.dump() + "\n");
    return;
  }
  std::string text = "\nHeld-out pictures, and what the model says they are:\n\n";
  auto read_aloud = pick(places, arguments.captions);
  size_t width = 0;
  for (int64_t place : read_aloud) width = std::max(width, names[size_t(place)].size());
  for (int64_t place : read_aloud)
    text += fmt::format("  {:{}}  \"{}\"\n", names[size_t(place)], width, captions[size_t(place)]);
  text += fmt::format(
      "\nOver {} held-out pairs:\n"
      "captions  F1 of words with the own name {:.3f}, with the others' names {:.3f}; nearer to the own in "
      "{:.1f} % of "
      "comparisons (chance 50 %)\n"
      "pictures  squared distance to the own picture {:.3f}, to the others' {:.3f}; nearer to the own in "
      "{:.1f} % of "
      "comparisons (chance 50 %)\n\n"
      "pictures  {} (above the real ones, below the drawn)\n",
      judged.size(), said.own, said.chance, said.won * 100, seen.own, seen.chance, seen.won * 100, grid);
  write_stdout(text);
}

}  // namespace

void add_sample_command(CLI::App& program) {
  auto* command = program.add_subcommand("sample", kAbout);
  auto arguments = std::make_shared<SampleArguments>();
  command->add_option("WEIGHTS", arguments->weights, "weights.safetensors of bigmac train")->required();
  add_count(*command, "--captions", arguments->captions, "Held-out captions to print")->default_str("12");
  add_count(*command, "--pictures", arguments->pictures, "Held-out pictures to draw into the grid")
      ->default_str("12");
  add_count(*command, "--judged", arguments->judged, "Held-out pairs that the figures are taken over")
      ->default_str("100");
  add_count(*command, "--steps", arguments->steps, "Steps from noise to a picture")->default_str("8");
  add_whole(
      *command, "--seed", 0, [arguments](int64_t seed) { arguments->seed = seed; }, "Seed of the noise")
      ->default_str("1");
  add_switch(*command, "--json", arguments->json, "Print all captions and figures as JSON");
  add_path(*command, "--output", arguments->output, "The grid of pictures, a PNG")
      ->default_str("pictures.png beside the weights");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
