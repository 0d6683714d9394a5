#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/train/checkpoint_index.h"

namespace bigmac::train {

// Checkpoints of a run in one folder, as
//
//   step-00000120/rank-003.safetensors              what rank 3 wrote, whole tensors by global name
//   step-00000120/model.safetensors.index.json      name -> file, as Hugging Face's index has it, with sizes,
//                                                   checksums (CRC-32 of each tensor's bytes) and facts
//
// A checkpoint is written as step-00000120.<attempt>-<save>.part and renamed when every rank's file and the
// index are on the disk: what is called step-N is whole. All ranks see one file system; they exchange nothing
// else. One run at a time writes into a folder.
using NamedTensors = std::map<std::string, torch::Tensor>;
using Facts = std::map<std::string, std::string>;  // UTF-8

struct CheckpointOptions {
  std::string folder;
  int64_t keep = 2;  // of the newest; older ones are removed once a newer one is whole. 0: all

  // The same on all ranks and another at every start of a run: a random number that one rank draws and
  // broadcasts. It keeps files of a start that died apart from those of this one. 0: drawn here, if ranks is
  // 1.
  uint64_t attempt = 0;

  // How long the first rank, done with its own file, waits for another's before it gives the checkpoint up.
  std::chrono::seconds patience{1800};
};

class CheckpointWriter {
 public:
  // Asked several times a second by the thread that waits. True gives up what is waited for, and the call
  // throws Failure; what it throws itself does so too, and is what the call throws.
  using IsCancelled = std::function<bool()>;

  // `rank` of `ranks`; the first puts the index together. Makes the folder. Throws InvalidInput for options
  // that are none, Failure where the folder cannot be written to.
  CheckpointWriter(CheckpointOptions options, int rank, int ranks);
  // Waits until this rank's file is on the disk, but not for other ranks: call wait() for that. Drops errors.
  ~CheckpointWriter();

  // Copies this rank's tensors to the CPU and writes them in the background; they may be changed at once. The
  // copies' memory is kept for the next save. All ranks call it with the same steps in the same order, and no
  // two give the same name. `facts` are those of the first rank. Waits for the checkpoint before, if it is
  // still being written. Throws InvalidInput for what cannot be stored. Throws what went wrong with the
  // checkpoint before, after this one has been begun: Failure naming the file and the reason (a full disk,
  // ...); the last whole checkpoint is never touched. Writing step N once more replaces it; later steps, of a
  // run that has gone back, are renamed step-*.aside.
  void save(int64_t step, const NamedTensors& own, const Facts& facts, const IsCancelled& is_cancelled = {});
  // Until what is being written is whole (on the first rank) or this rank's file is on the disk. Throws what
  // went wrong, once.
  void wait(const IsCancelled& is_cancelled = {});

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// What is in a checkpoint, from its index. Nothing is loaded yet.
class Checkpoint {
 public:
  // `path`: a folder of checkpoints, of which it takes the newest whole one, or one of them.
  // Throws InvalidInput naming the file and what is wrong: no checkpoint there, a missing or damaged index, a
  // missing shard. A damaged newest one is an error, and the message names the one before it.
  static Checkpoint open(const std::string& path);
  // None where the folder holds none or does not exist.
  static std::optional<Checkpoint> newest(const std::string& folder);

  int64_t step() const { return step_; }
  const std::string& path() const { return path_; }
  const Facts& facts() const { return facts_; }
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;

  // The tensors of these names, from as many files as it takes. Throws InvalidInput naming the file and the
  // tensor: a name that is not there (with the nearest), a truncated file, a wrong checksum. On the CPU.
  NamedTensors load(const std::vector<std::string>& names) const;
  // Copies into `tensors` what is stored under their names; besides the above, a wrong shape is InvalidInput
  // with the name and both shapes. Dtypes are converted where both are floating. Names, shapes and dtypes are
  // checked before any tensor is changed.
  void load_into(const NamedTensors& tensors) const;

 private:
  static Checkpoint open_one(const std::string& path);
  const StoredTensor& find(const std::string& name) const;

  int64_t step_ = 0;
  std::string path_;
  Facts facts_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace bigmac::train
