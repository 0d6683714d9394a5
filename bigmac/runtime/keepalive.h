#pragma once

#include <set>

namespace bigmac {

// A connection to a host that has vanished (no power, a cut cable) says nothing, and whoever waits for it
// would wait for ever. Libtorch and Gloo do not hand out their sockets, so these are found by what a process
// has open.

// Seconds until a connection breaks whose other host does not confirm what it is sent, or is silent.
constexpr int kSilence = 20;

// Which connections break: those with something sent on the way, or idle ones too. Idle ones of a TCPStore
// must not: it has a second connection, and the thread that listens there ends the process (libtorch 1.13).
enum class Watched { sent, idle_too };

std::set<int> open_files();

// For the TCP connections of this process that have come since it had `before` open. Changes nothing where
// /proc is not there.
void watch_new_connections(const std::set<int>& before, Watched watched);

}  // namespace bigmac
