//===- Main.cpp - The main program of an executable -----------------------===//
//
// What moe-compile links with a program: trains it, as moe-run does, with the
// same lines. Exit status: 0 done, 1 an error, 2 a wrong command line, 3 this
// machine lacks something to run on.
//
//===----------------------------------------------------------------------===//

#include "Backend.h"
#include "moe/Runtime/Program.h"
#include "moe/Runtime/Train.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>

using namespace moert;

namespace {

const char *usage =
    "usage: %s [options]\n"
    "Trains the program that is linked in; on GPUs one process for each of its "
    "ranks.\n"
    "  --steps=N             steps to train (default 1)\n"
    "  --seed=N              seed of random weights and tokens (default 0)\n"
    "  --weights=FILE        start from this .safetensors file\n"
    "  --tokens=FILE         train on 'tokens' [steps][samples][sequence + 1] "
    "of "
    "this\n"
    "                        .safetensors file\n"
    "  --save=FILE           write the weights after the last step\n"
    "  --save-gradients=FILE write the gradients of the last step\n"
    "  --no-timing           leave out tokens/s\n"
    "  --kernels             list the kernels and what runs them, then end\n"
    "  --threads=N           host only: threads (default 2)\n"
    "  --order-seed=N        host only: run in any legal order\n";

struct Options {
  TrainingRun run;
  uint64_t threads = 2, orderSeed = 0;
  bool listKernels = false;
};

int failed(const char *program, const std::string &message, int status = 1) {
  std::fprintf(stderr, "%s: error: %s\n", program, message.c_str());
  return status;
}

bool readNumber(const char *text, uint64_t &number) {
  char *end = nullptr;
  errno = 0;
  number = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && !errno;
}

/// Exit status, -1: go on.
int parse(int argc, char **argv, Options &options) {
  const option known[] = {{"steps", required_argument, nullptr, 's'},
                          {"seed", required_argument, nullptr, 'r'},
                          {"weights", required_argument, nullptr, 'w'},
                          {"tokens", required_argument, nullptr, 't'},
                          {"save", required_argument, nullptr, 'o'},
                          {"save-gradients", required_argument, nullptr, 'g'},
                          {"no-timing", no_argument, nullptr, 'n'},
                          {"threads", required_argument, nullptr, 'j'},
                          {"order-seed", required_argument, nullptr, 'e'},
                          {"kernels", no_argument, nullptr, 'k'},
                          {"help", no_argument, nullptr, 'h'},
                          {}};
  int c;
  while ((c = getopt_long(argc, argv, "", known, nullptr)) != -1) {
    uint64_t *number = c == 's'   ? &options.run.steps
                       : c == 'r' ? &options.run.seed
                       : c == 'j' ? &options.threads
                       : c == 'e' ? &options.orderSeed
                                  : nullptr;
    if (number && !readNumber(optarg, *number))
      return failed(argv[0], std::string("'") + optarg + "' is no number", 2);
    std::string *file = c == 'w'   ? &options.run.weights
                        : c == 't' ? &options.run.tokens
                        : c == 'o' ? &options.run.save
                        : c == 'g' ? &options.run.saveGradients
                                   : nullptr;
    if (file)
      *file = optarg;
    if (c == 'n')
      options.run.timing = false;
    if (c == 'k')
      options.listKernels = true;
    if (c == 'h') {
      std::printf(usage, argv[0]);
      return 0;
    }
    if (c == '?')
      return 2;
  }
  if (optind < argc)
    return failed(argv[0], std::string("unexpected '") + argv[optind] + "'", 2);
  if (options.run.steps < 1 || options.threads < 1 || options.threads > 1024)
    return failed(
        argv[0], "--steps must be at least 1, --threads between 1 and 1024", 2);
  return -1;
}

void listKernels(const Engine &engine) {
  if (engine.rank() != 0)
    return;
  for (const auto &[kernel, what] : engine.implementations())
    std::printf("%-28s %s\n", kernel.c_str(), what.c_str());
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  int status = parse(argc, argv, options);
  if (status >= 0)
    return status;
  std::string error = checkOutputs(options.run);
  if (!error.empty())
    return failed(argv[0], error);
  error = missingForEngine();
  if (!error.empty())
    return failed(argv[0], error, 3);
  moe_rt_options own{};
  own.threads = int(options.threads);
  own.order_seed = options.orderSeed;
  own.poison = 1;
  Table table;
  std::unique_ptr<Engine> engine;
  if (fromJson({moe_program.table, moe_program.table_size}, table, error))
    engine = createEngine(table, programOptions(own), error);
  if (engine && options.listKernels)
    listKernels(*engine);
  else if (engine)
    error = train(*engine, options.run);
  return error.empty() ? 0 : failed(argv[0], error);
}
