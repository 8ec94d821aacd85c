//===- StandIn.cpp - Ranks of the CUDA engine on the stand-in -------------===//

#include "StandIn.h"

#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace moert;
using namespace moert::test;

std::string test::train(Engine &engine, Outcome &outcome) {
  std::string error;
  outcome.steps.clear();
  if (!engine.initialize(1, error))
    return error;
  for (int step = 0; step < 2; ++step) {
    StepResult result;
    if (!engine.step(engine.randomTokens(1, step), result, error))
      return error;
    outcome.steps.insert(outcome.steps.end(), {result.loss, result.gradNorm});
  }
  engine.gradients(outcome.gradients, error);
  return error;
}

/// Writes or reads all values, by fwrite or fread.
template <typename F> static bool pass(Outcome &outcome, F move, FILE *file) {
  auto whole = [&](std::vector<float> &values) {
    return move(values.data(), sizeof(float), values.size(), file) ==
           values.size();
  };
  bool passed = whole(outcome.steps);
  for (NamedTensor &tensor : outcome.gradients)
    passed = passed && whole(tensor.values);
  return passed;
}

static void setVariable(const char *name, const std::string &value) {
  setenv(name, value.c_str(), /*overwrite=*/1);
}

/// A port that nobody else gets while this lives; rank 0 may listen there, as
/// both allow the other's address.
namespace {
class ReservedPort {
public:
  ReservedPort() {
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    int yes = 1;
    auto *any = reinterpret_cast<sockaddr *>(&address);
    if (bind(holder, any, size) != 0 || getsockname(holder, any, &size) != 0 ||
        setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
      std::perror("no free port");
  }
  ~ReservedPort() { close(holder); }
  ReservedPort(const ReservedPort &) = delete;
  int number() const { return ntohs(address.sin_port); }

private:
  int holder = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
};
} // namespace

/// What a rank's process does. Rank 0 writes its outcome to the pipe; what is
/// wrong goes to standard error.
static bool runRank(const Table &table, const CudaOptions &options, int rank,
                    int pipe) {
  setVariable("RANK", std::to_string(rank));
  std::string error;
  Outcome outcome;
  if (auto engine = createCudaEngine(table, options, error))
    error = train(*engine, outcome);
  if (!error.empty())
    std::fprintf(stderr, "rank %d: %s\n", rank, error.c_str());
  if (!error.empty() || rank != 0)
    return error.empty();
  FILE *file = fdopen(pipe, "w");
  return pass(outcome, fwrite, file) && fclose(file) == 0;
}

std::string test::trainOnStandIn(const Table &table, const std::string &image,
                                 const std::string &twins, uint64_t seed,
                                 Outcome &outcome) {
  setVariable("WORLD_SIZE", std::to_string(table.ranks));
  ReservedPort port;
  setVariable("MOE_RT_PORT", std::to_string(port.number()));
  setVariable("MOE_STANDIN_SEED", std::to_string(seed));
  setVariable("MOE_STANDIN_TWINS", twins + ":" MOE_DEVICE_TWINS);
  // A rank that waits for its turn on a busy machine is no deadlock.
  setVariable("MOE_STANDIN_TIMEOUT", "120");
  CudaOptions options{image.data(), image.size()};
  int ends[2];
  FILE *log = tmpfile();
  if (pipe(ends) != 0 || !log)
    return "no pipe or temporary file";
  // Or a child that ends in a fault would print it again.
  fflush(stdout);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < table.ranks; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() == 0) {
      dup2(fileno(log), STDERR_FILENO);
      _exit(runRank(table, options, rank, ends[1]) ? 0 : 1);
    }
  }
  close(ends[1]);
  FILE *file = fdopen(ends[0], "r");
  std::string error;
  if (!pass(outcome, fread, file))
    error = "rank 0 leaves no outcome\n";
  fclose(file);
  for (int rank = 0; rank < table.ranks; ++rank) {
    int status = -1;
    if (waitpid(ranks[rank], &status, 0) < 0 || status != 0)
      error += "rank " + std::to_string(rank) + " ends with status " +
               std::to_string(WEXITSTATUS(status)) + "\n";
  }
  rewind(log);
  for (int c; !error.empty() && (c = fgetc(log)) != EOF;)
    error += char(c);
  fclose(log);
  return error;
}
