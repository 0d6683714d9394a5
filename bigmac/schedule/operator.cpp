#include "bigmac/schedule/operator.h"

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

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

Module module_from_name(std::string_view text) {
  for (auto module : {Module::backbone, Module::encoder, Module::generator})
    if (text == name(module)) return module;
  throw InvalidInput(unknown_name("module", text, {"backbone", "encoder", "generator"}));
}

std::string_view letter(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "F";
    case Phase::backward:
      return "B";
    case Phase::input:
      return "I";
    case Phase::weight:
      return "W";
    case Phase::generate:
      return "G";
  }
  throw InvalidInput("[operator] phase out of range");
}

std::string short_name(const Operator& op) {
  if (op.module == Module::backbone) return concat(letter(op.phase), op.chunk, ".", op.index);
  return concat(op.module == Module::encoder ? "E" : "", letter(op.phase), op.index);
}

std::string long_name(const Operator& op) {
  std::string text = concat(name(op.module), " ", letter(op.phase));
  if (op.module != Module::backbone) return text + concat(" share ", op.index);
  return text + concat(" chunk ", op.chunk, " microbatch ", op.index);
}

}  // namespace bigmac
