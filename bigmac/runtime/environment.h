#pragma once

#include <functional>
#include <optional>
#include <string>

namespace bigmac {

// Where this process stands in a group of processes, and where they meet.
struct Environment {
  int rank = 0;
  int size = 1;
  std::string address;  // of the meeting point
  int port = 0;
  bool hosted = false;   // the meeting point runs in the launcher, not in rank 0
  std::string launcher;  // torchrun, slurm, mpirun
};

// Reads a variable; std::nullopt where it is not set.
using GetVariable = std::function<std::optional<std::string>(const std::string&)>;
GetVariable process_environment();

// What the launcher of this process has set, or nothing where it was started by hand:
//   torchrun  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (and TORCHELASTIC_USE_AGENT_STORE)
//   Slurm     SLURM_PROCID, SLURM_NTASKS and SLURM_STEP_ID (a step that srun started); they meet at
//             MASTER_ADDR or the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, at MASTER_PORT
//             or a port made from SLURM_JOB_ID
//   mpirun    OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE; MASTER_ADDR, which Open MPI does
//             without where all ranks are local; MASTER_PORT or 29500
// Throws InvalidInput naming the variable that is missing or malformed.
std::optional<Environment> read_environment(const GetVariable& get = process_environment());

// The first host of a Slurm node list: "gpu[07-09,12],login1" -> "gpu07".
std::string first_host(const std::string& node_list);

}  // namespace bigmac
