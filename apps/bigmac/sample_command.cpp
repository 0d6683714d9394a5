#include "apps/bigmac/sample_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/command/progress.h"
#include "bigmac/data/png.h"
#include "bigmac/demo/sample.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Lets a trained model say what it sees on held-out pictures, draw held-out names and, with an audio "
    "encoder, write held-out names that it hears, none of which it was trained on, and says how much better "
    "than chance it does.";

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

// A line for each of these places: the name and, quoted, what was made of it.
std::string side_by_side(const std::vector<std::string>& names, const std::vector<std::string>& made,
                         const std::vector<int64_t>& places) {
  size_t width = 0;
  for (int64_t place : places) width = std::max(width, names[size_t(place)].size());
  std::string text;
  for (int64_t place : places)
    text += fmt::format("  {:{}}  \"{}\"\n", names[size_t(place)], width, made[size_t(place)]);
  return text;
}

std::string figures_text(const char* what, const demo::Against& texts) {
  return fmt::format(
      "{}  F1 of words with the own name {:.3f}, with the others' names {:.3f}; nearer to the own in {:.1f} "
      "% of "
      "comparisons (chance 50 %)\n",
      what, texts.own, texts.chance, texts.won * 100);
}

void run(const SampleArguments& arguments) {
  auto trained = demo::load_model(arguments.weights);
  auto dataset = data::load_dataset(trained.config.data);
  std::optional<demo::Clips> clips;
  if (trained.config.audio) clips.emplace(trained.config, dataset);
  auto judged =
      pick(dataset.held_out(), std::max({arguments.judged, arguments.captions, arguments.pictures}));
  auto names = names_of(dataset, judged);
  auto grid = arguments.output.value_or(
      (std::filesystem::path(arguments.weights).parent_path() / "pictures.png").string());

  std::vector<std::string> captions, heard;
  torch::Tensor drawn;
  {
    Progress progress("sampling", int64_t(judged.size()) + 1);
    captions = demo::write_captions(trained, dataset, judged);
    if (clips) heard = demo::write_heard(trained, *clips, judged);
    std::vector<torch::Tensor> pictures;
    for (size_t i = 0; i < judged.size(); ++i) {
      progress.done(int64_t(i) + 1, "drawing " + names[i]);
      pictures.push_back(
          demo::draw_pictures(trained, dataset, {judged[i]}, arguments.steps, uint64_t(arguments.seed) + i));
    }
    drawn = torch::cat(pictures);
  }
  std::vector<torch::Tensor> real;
  for (int64_t index : judged) real.push_back(dataset.picture(index));
  auto said = demo::compare_captions(captions, names);
  std::optional<demo::Against> written;
  if (clips) written = demo::compare_captions(heard, names);
  auto seen = demo::compare_pictures(drawn, torch::stack(real));
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
    if (written)
      json["clips"] = {{"word_f1", written->own}, {"chance", written->chance}, {"won", written->won}};
    for (size_t i = 0; i < heard.size(); ++i)
      json["heard"].push_back({{"name", names[i]}, {"written", heard[i]}});
    write_stdout(json.dump() + "\n");
    return;
  }
  auto read_aloud = pick(places, arguments.captions);
  auto text = "\nHeld-out pictures, and what the model says they are:\n\n" +
              side_by_side(names, captions, read_aloud);
  if (written)
    text +=
        "\nHeld-out names, spoken, and what the model writes:\n\n" + side_by_side(names, heard, read_aloud);
  text += fmt::format("\nOver {} held-out pairs:\n{}", judged.size(), figures_text("captions", said));
  if (written) text += figures_text("clips   ", *written);
  text += fmt::format(
      "pictures  squared distance to the own picture {:.3f}, to the others' {:.3f}; nearer to the own in "
      "{:.1f} % of comparisons (chance 50 %)\n\n"
      "pictures  {} (above the real ones, below the drawn)\n",
      seen.own, seen.chance, seen.won * 100, grid);
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
