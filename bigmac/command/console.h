#pragma once

#include <string>
#include <string_view>

namespace bigmac {

// Whether what is written to this file descriptor may be coloured: it is a terminal that knows colours, and
// NO_COLOR (no-color.org) is unset or empty.
bool wants_colour(int descriptor);

// "bigmac: error: ..." and "bigmac: note: ..." on stderr, the word coloured on a terminal.
void print_error(std::string_view message);
void print_note(std::string_view message);

// Writes to stdout. A reader that went away (`| head`) is no error: the rest is dropped. Throws Failure with
// the reason for any other, such as a full disk.
void write_stdout(std::string_view text);

// Writes a file, replacing what was there. Throws Failure naming the path and the reason.
void write_file(const std::string& path, std::string_view text);

}  // namespace bigmac
