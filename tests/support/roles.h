#pragma once

#include <functional>
#include <string>

#include "bigmac/runtime/transport.h"
#include "tests/support/folder.h"

// Test programs that start themselves as ranks: main() runs the role named in BIGMAC_TEST_ROLE in place of
// the tests.
namespace bigmac::roles {

// Run in a process of its own; `folder` is where it may leave files for the test.
using Role = std::function<void(Transport& transport, const std::string& folder)>;

// One that connects itself, as a program does that trains.
using Program = std::function<void(const std::string& folder)>;

// At namespace scope: static const bool added = roles::add("name", [](...) {...});
bool add(const std::string& name, Role role);
bool add_program(const std::string& name, Program program);

// Runs the role on as many processes. Throws RankFailure as launch_processes does.
void run(const std::string& name, int ranks, const std::string& folder = "");

}  // namespace bigmac::roles
