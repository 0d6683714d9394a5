#include "tests/view/http.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{.tv_sec = 120, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send_all(const std::string& text) const {
    for (size_t sent = 0; sent < text.size();) {
      auto count = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) fail("send");
      sent += size_t(count);
    }
  }

  // Appends what comes; false at the end.
  bool receive(std::string& text) const {
    std::array<char, 65536> part{};
    auto count = recv(socket_, part.data(), part.size(), 0);
    if (count < 0) fail("receive");
    text.append(part.data(), size_t(count));
    return count > 0;
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw Failure(concat("[http] cannot ", what, ": ", std::strerror(errno)));
  }
  int socket_;
};

size_t length_of(const std::string& head) {
  std::string lower = head;
  for (char& letter : lower) letter = char(std::tolower(static_cast<unsigned char>(letter)));
  auto at = lower.find("content-length:");
  if (at == std::string::npos) throw Failure("[http] an answer without its length: " + head);
  return std::stoul(lower.substr(at + 15));
}

}  // namespace

std::string http(int port, const std::string& method, const std::string& path, const std::string& body) {
  Connection connection(port);
  connection.send_all(concat(method, " ", path, " HTTP/1.1\r\nHost: localhost:", port,
                             "\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n",
                             "Content-Length: ", body.size(), "\r\n\r\n", body));
  std::string answer;
  size_t head = std::string::npos;
  while (head == std::string::npos) {
    if (!connection.receive(answer)) throw Failure("[http] the server hung up: " + answer);
    head = answer.find("\r\n\r\n");
  }
  size_t whole = head + 4 + length_of(answer.substr(0, head));
  while (answer.size() < whole && connection.receive(answer)) {
  }
  return answer.substr(head + 4);
}

}  // namespace bigmac
