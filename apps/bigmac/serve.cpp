#include "apps/bigmac/serve.h"

#include <httplib.h>
#include <pthread.h>

#include <csignal>
#include <thread>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr int kBadRequest = 400, kServerError = 500;
constexpr size_t kMostBytes = 100'000;  // of a request

// The signals that end the server, for as long as they are waited for instead of ending the program.
class Ends {
 public:
  Ends() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Ends() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  void wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
  }

 private:
  sigset_t signals_{}, before_{};
};

httplib::Server::Handler answering(const std::function<std::string(const std::string&)>& make,
                                   const char* type) {
  return [make, type](const httplib::Request& request, httplib::Response& response) {
    auto say = [&](int status, const std::string& text) {
      response.status = status;
      response.set_content(text + "\n", "text/plain; charset=utf-8");
    };
    try {
      response.set_content(make(request.body), type);
      response.set_header("Cache-Control", "no-store");
    } catch (const InvalidInput& error) {
      say(kBadRequest, error.what());
    } catch (const std::bad_alloc&) {
      say(kServerError, "not enough memory");
    } catch (const std::exception& error) {
      say(kServerError, error.what());
    }
  };
}

int listening_port(httplib::Server& server, const ServeOptions& options) {
  if (options.port == 0) {
    int port = server.bind_to_any_port(options.host);
    if (port > 0) return port;
    throw Failure(concat("cannot listen on ", options.host, ": is it an address of this machine?"));
  }
  if (server.bind_to_port(options.host, options.port)) return options.port;
  throw Failure(
      concat("cannot listen on ", options.host, ":", options.port,
             ": the port is taken, or the address is none of this machine; --port 0 takes any free port"));
}

}  // namespace

void serve(const ServeOptions& options, const std::function<std::string()>& page,
           const std::function<std::string(const std::string&)>& simulate,
           const std::function<void(const std::string&)>& ready) {
  Ends ends;
  httplib::Server server;
  server.set_payload_max_length(kMostBytes);
  // A second server on a port is an error, where httplib's own choice would share the port.
  server.set_socket_options([](socket_t socket) {
    int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.Get("/", answering([&](const std::string&) { return page(); }, "text/html; charset=utf-8"));
  server.Post("/simulate", answering(simulate, "application/octet-stream"));
  int port = listening_port(server, options);
  std::thread listener([&] { server.listen_after_bind(); });
  ready(concat("http://", options.host, ":", port, "/"));
  ends.wait();
  server.stop();
  listener.join();
}

}  // namespace bigmac
