#include "bigmac/schedule/operator.h"

#include "bigmac/common/error.h"

namespace bigmac {

std::string_view name(Module module) {
  switch (module) {
    case Module::backbone:
      return "backbone";
    case Module::encoder:
      return "encoder";
    case Module::generator:
      return "generator";
  }
  throw InvalidInput("[operator] module out of range");
}

std::string_view letter(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "F";
    case Phase::backward:
      return "B";
    case Phase::generate:
      return "G";
  }
  throw InvalidInput("[operator] phase out of range");
}

std::string short_name(const Operator& op) {
  if (op.module == Module::backbone) return concat(letter(op.phase), op.chunk, ".", op.microbatch);
  return concat(op.module == Module::encoder ? "E" : "", letter(op.phase), op.microbatch);
}

std::string long_name(const Operator& op) {
  std::string text = concat(name(op.module), " ", letter(op.phase));
  if (op.module == Module::backbone) text += concat(" chunk ", op.chunk);
  return text + concat(" microbatch ", op.microbatch);
}

}  // namespace bigmac
