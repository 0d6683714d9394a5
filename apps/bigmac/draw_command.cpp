#include "apps/bigmac/draw_command.h"

#include <unistd.h>

#include <memory>

#include "apps/bigmac/output_files.h"
#include "apps/bigmac/recordings.h"
#include "apps/bigmac/share_text.h"
#include "bigmac/command/console.h"
#include "bigmac/picture/raster.h"
#include "bigmac/schedule/grid.h"
#include "bigmac/timeline/picture.h"
#include "bigmac/timeline/trace.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Draws a step without a browser: as SVG or PNG for papers and pages, as a trace for Perfetto, or, with "
    "none of them, its table as a grid in the terminal.\n"
    "\n"
    "FILE is a step that was measured (a profile folder, a trace, or what else `bigmac replay` reads), or a "
    "table as "
    "`bigmac check` reads it, "
    "which is "
    "simulated. `bigmac view` makes a page of it to zoom into.";

constexpr char kExamples[] =
    "Examples:\n"
    "  bigmac draw out/emoji/trace.json --png step.png --path\n"
    "  bigmac draw runs/pp8 --svg step.svg --from 0.2 --to 0.6\n"
    "  bigmac draw schedule.csv --backbone 1,1.2,0.8 --svg schedule.svg\n"
    "  bigmac draw out/emoji/profile --trace step.json.gz\n"
    "  bigmac draw schedule.csv";

struct DrawArguments {
  std::string file;
  std::optional<std::string> svg, png, trace;
  int64_t most = kMostWithFlows;
  PictureOptions picture;
  bool titled = false;
  double scale = 2;
  RecordingOptions options;
};

void run(const DrawArguments& arguments) {
  for (const auto& path : {arguments.svg, arguments.png, arguments.trace})
    if (path) check_writable(*path);
  auto recording = read_recording(arguments.file, "", arguments.options);
  print_notes_of_damage(recording);
  if (arguments.trace) {
    write_trace(recording, *arguments.trace,
                {.second = recording.measured ? 1.0 : 1000.0,
                 .from = arguments.picture.from,
                 .to = arguments.picture.to,
                 .most = arguments.most});
    write_stdout(concat("trace: ", *arguments.trace, " (open it in https://ui.perfetto.dev)\n"));
  }
  if (!arguments.svg && !arguments.png && !arguments.trace) {
    write_stdout(to_grid(recording.schedule, wants_colour(STDOUT_FILENO)) + "\n" +
                 grid_legend(recording.schedule));
    return;
  }
  if (!arguments.svg && !arguments.png) return;
  auto picture = arguments.picture;
  if (!arguments.titled) picture.title = recording.name;
  auto svg = to_svg(recording, picture);
  if (arguments.svg) {
    write_file(*arguments.svg, svg);
    write_stdout(concat("picture: ", *arguments.svg, "\n"));
  }
  if (arguments.png) {
    write_file(*arguments.png, png_of(svg, arguments.scale));
    write_stdout(concat("picture: ", *arguments.png, "\n"));
  }
}

}  // namespace

void add_draw_command(CLI::App& program) {
  auto* command = program.add_subcommand("draw", kAbout);
  auto arguments = std::make_shared<DrawArguments>();
  auto* picture = &arguments->picture;
  command->add_option("FILE", arguments->file, "A measured step or a table")->required();
  add_path(*command, "--svg", arguments->svg, "Draw it as SVG");
  add_path(*command, "--png", arguments->png, "Draw it as PNG");
  add_path(*command, "--trace", arguments->trace,
           "Write it as Chrome trace events, for Perfetto; .gz compresses them");
  add_whole(
      *command, "--most", 0, [arguments](int64_t most) { arguments->most = most; },
      "Of a trace's operators: where there are more, those in the middle of each rank's row are put "
      "together, 64 "
      "at a time; 0: never")
      ->default_str(std::to_string(kMostWithFlows));
  command
      ->add_option_function<std::string>(
          "--title",
          [arguments](const std::string& text) {
            arguments->picture.title = text;
            arguments->titled = true;
          },
          "What stands above it")
      ->type_name("TEXT")
      ->default_str("the file's name");
  auto part = [&](const char* name, std::optional<double>& time, const char* help) {
    auto take = [name, &time](const std::string& text) {
      double value = 0;
      if (!parse_number(text, value)) throw must_be(name, "a number, as 0.25", text);
      time = value;
    };
    command->add_option_function<std::string>(name, take, help)->type_name("TIME");
  };
  part("--from", picture->from,
       "Only what comes behind this, from the step's start (seconds where measured)");
  part("--to", picture->to, "Only what comes before this");
  add_switch(*command, "--path", picture->critical_path,
             "Outline the operators that the step's end hangs on");
  command
      ->add_option_function<std::string>(
          "--width",
          [picture](const std::string& text) {
            picture->width = double(parse_count("--width", text));
            if (picture->width < 200 || picture->width > 20000)
              throw must_be("--width", "from 200 to 20000", text);
          },
          "Of the picture, in pixels (of a PNG twice as many)")
      ->type_name("N")
      ->default_str("1200");
  add_recording_options(*command, arguments->options);
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
