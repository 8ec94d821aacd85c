//===- Executor.h - Runs the programs of all ranks ------------------------===//
//
// Each rank has one host that issues ops in order, up to and with the next
// host read that is not done. An op may start when it is issued, the earlier
// ops of its stream are done, its waits are done, and, if it communicates, the
// earlier ops of its rank on its communicator are done. A collective runs when
// all members may start theirs, a send when its receive may start. Operands in
// host frames are read as the host issues the op; those of captured ops as it
// does for the first time.
//
// All state is under one mutex; only the ops themselves run outside of it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_EXECUTOR_H
#define MOE_LIB_RUNTIME_EXECUTOR_H

#include "Ranks.h"
#include "moe/Runtime/Engine.h"

#include <condition_variable>
#include <mutex>
#include <random>
#include <unordered_map>

namespace moert {

/// What runs a kernel of the table: one of the two.
struct KernelCode {
  const HostKernel *library = nullptr;
  GeneratedKernel generated = nullptr;
};

class Executor {
public:
  /// The table, the ranks and the code outlive the executor.
  Executor(const Table &table, const std::vector<Rank> &ranks,
           const std::vector<KernelCode> &code, const EngineOptions &options);

  /// Runs each rank's program once; false and `error` if an op fails or if
  /// nothing can run.
  bool run(std::string &error);

  /// Bytes that the last run sent, see Engine::sentBytes.
  const std::map<std::string, int64_t> &sentBytes() const { return sent; }

private:
  /// What ranks of one program share: its ops by stream and by communicator,
  /// the reads that block the host, and the ops with operands in host frames.
  struct Schedule {
    ScheduleView view;
    std::vector<std::vector<int64_t>> streamOps, communicatorOps;
    std::vector<int64_t> blockingReads, hostReaders;

    Schedule(const Table &table, uint32_t program);
    /// The call and the op of a flat index.
    std::pair<int64_t, const Op *> at(int64_t flat) const;
    int64_t onCommunicator(uint32_t communicator, size_t position) const {
      return communicatorOps[communicator][position];
    }
  };

  /// An op that may run, in the slot of the stream that it occupies. Of a
  /// collective one member's task stands for all.
  struct Task {
    uint32_t rank = 0;
    int64_t flat = 0, call = 0;
    const Op *op = nullptr;
    /// Set when it first runs. A tile runs once, on any thread.
    int64_t tiles = -1;
    int64_t nextTile = 0, doneTiles = 0;
    Launch launch;
    std::vector<void *> pointers;
    /// Those that a collective or a send moves data between, in order.
    std::vector<Task *> members;
  };

  struct StreamState {
    size_t next = 0;
    /// Its next op has started, or waits for its peers only.
    bool busy = false;
    Task task;
  };

  struct RankState {
    std::vector<uint8_t> done;
    std::vector<StreamState> streams;
    /// By communicator: the next op, and if that one waits for its peers.
    std::vector<size_t> nextOnCommunicator;
    std::vector<uint8_t> posted;
    size_t nextRead = 0, nextHostReader = 0;
    /// By op: what its operands in host frames held, one after the other.
    std::unordered_map<int64_t, std::vector<char>> hostValues;
    int64_t remaining = 0;
  };

  const Schedule &scheduleOf(uint32_t rank) const {
    return schedules[ranks[rank].program];
  }
  int64_t issueLimit(uint32_t rank) const;
  void reset();

  // Under the mutex.
  void issue(uint32_t rank);
  void advance(uint32_t rank);
  void tryStart(uint32_t rank, uint32_t stream);
  void post(Task &task);
  void postCollective(Task &task);
  void postPair(Task &task);
  /// What a rank has posted on a communicator; null: nothing.
  const Task *postedTask(int64_t rank, uint32_t communicator) const;
  Task *postedTask(int64_t rank, uint32_t communicator);
  void makeReady(Task &task);
  Task &pick();
  void drop();
  void prepare(Task &task);
  void gatherPointers(Task &task);
  void finish(const Task &task);
  void countSent(const Task &task);
  void complete(const Task &task);
  void fail(const std::string &message);
  std::string deadlock() const;
  std::string blocker(uint32_t rank, uint32_t stream) const;

  // Outside of it.
  void work();
  std::string execute(Task &task, int64_t begin, int64_t end);
  std::string transfer(Task &task);
  std::string describe(uint32_t rank, int64_t flat) const;
  std::string describe(const Task &task) const {
    return describe(task.rank, task.flat);
  }

  const Table &table;
  const std::vector<Rank> &ranks;
  const std::vector<KernelCode> &code;
  const EngineOptions options;
  std::vector<Schedule> schedules;
  std::mt19937_64 random;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankState> states;
  /// By communicator and first member: how many have posted a collective.
  std::vector<std::vector<int64_t>> arrived;
  /// Tasks with tiles left; a heap by issue order, or any order if seeded.
  std::vector<Task *> ready;
  int64_t running = 0, idle = 0;
  std::map<std::string, int64_t> sent;
  std::string failure;
};

} // namespace moert

#endif // MOE_LIB_RUNTIME_EXECUTOR_H
