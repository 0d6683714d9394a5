#pragma once

#include <cstdint>
#include <map>
#include <string>

// The folders of checkpoints: their names, and what happens to them. Everything throws Failure naming the
// path and the reason.
//
//   step-00000120                           whole
//   step-00000120.00c0ffee00c0ffee-7.part   being written: step, attempt and the attempt's 7th save
//   ....removed                             about to be deleted
//   ....aside                               was whole; a later step than one written since
namespace bigmac::train {

constexpr const char* kIndexFile = "model.safetensors.index.json";

// One save of one start of a run. Ranks agree on it without talking to each other, and no two agree by
// chance.
struct SaveId {
  uint64_t attempt = 0;  // a random number that the ranks of a run share
  int64_t serial = 0;    // of the save among the attempt's
};

std::string whole_folder(const std::string& folder, int64_t step);
std::string part_folder(const std::string& folder, int64_t step, const SaveId& save);
std::string rank_file(int rank, const char* ending);  // "rank-003" + ending

// step -> path
std::map<int64_t, std::string> whole_checkpoints(const std::string& folder);

// With the folders above it, where it does not exist. `writable`: throws also if it cannot be written to.
void make_folder(const std::string& path, bool writable = false);

// Removes what no save will finish any more: all but whole checkpoints, those aside, and this attempt's saves
// from this one on.
void sweep(const std::string& folder, const SaveId& save);

// Removes a part, for other ranks at once.
void discard(const std::string& folder, int64_t step, const SaveId& save);

// Makes the part the whole checkpoint of its step, at once, and brings that to the disk. One of the same step
// is replaced.
void publish(const std::string& folder, int64_t step, const SaveId& save);

// What is left behind once `step` is whole: older ones beyond `keep` with it (0: none of them) are removed,
// later ones renamed, since the run went back behind them.
void retire(const std::string& folder, int64_t step, const SaveId& save, int64_t keep);

}  // namespace bigmac::train
