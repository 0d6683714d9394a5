#pragma once

#include <functional>
#include <string>

namespace bigmac {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 7070;  // 0: any free one
};

// A server of one page until SIGINT or SIGTERM: GET / is what `page` makes for each request, POST /simulate
// what `simulate` answers to the body. Where they throw InvalidInput the answer is 400, for other errors 500,
// with the error's text. `ready` gets the address once requests are answered. Throws Failure where the port
// cannot be listened on.
void serve(const ServeOptions& options, const std::function<std::string()>& page,
           const std::function<std::string(const std::string&)>& simulate,
           const std::function<void(const std::string&)>& ready);

}  // namespace bigmac
