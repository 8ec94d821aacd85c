//===- Train.cpp - Steps of training, as programs print them --------------===//

#include "moe/Runtime/Train.h"
#include "moe/Runtime/Safetensors.h"

#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>

using namespace moert;

/// Tokens of all steps of the file, one after the other.
static std::string readTokens(const std::string &path, size_t perStep,
                              std::vector<int32_t> &tokens) {
  std::vector<NamedIntegers> tensors;
  std::string error;
  if (!readSafetensors(path, tensors, error))
    return error;
  for (const NamedIntegers &tensor : tensors) {
    if (tensor.name != "tokens")
      continue;
    if (tensor.values.empty() || tensor.values.size() % perStep)
      return path + ": 'tokens' has " + std::to_string(tensor.values.size()) +
             " values, which is no multiple of the " + std::to_string(perStep) +
             " of a step";
    for (int64_t value : tensor.values) {
      if (value != int32_t(value))
        return path + ": 'tokens' has the value " + std::to_string(value);
      tokens.push_back(int32_t(value));
    }
    return "";
  }
  return path + ": has no tensor 'tokens'";
}

std::string moert::checkOutputs(const TrainingRun &run) {
  namespace fs = std::filesystem;
  std::pair<const char *, std::string> files[] = {
      {"--save=", run.save}, {"--save-gradients=", run.saveGradients}};
  for (const auto &[flag, path] : files) {
    std::error_code ignored;
    fs::path folder = fs::path(path).parent_path();
    if (!folder.empty() && !fs::is_directory(folder, ignored))
      return flag + path + ": '" + folder.string() + "' is no folder";
    if (fs::is_directory(path, ignored))
      return flag + path + ": is a folder; name a file in it";
    // It would be replaced.
    if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
      return flag + path + ": is there and is no file";
  }
  std::error_code ignored;
  if (!run.save.empty() && fs::weakly_canonical(run.save, ignored) ==
                               fs::weakly_canonical(run.saveGradients, ignored))
    return "--save and --save-gradients both name '" + run.save +
           "'; name two files";
  return "";
}

std::string moert::train(Engine &engine, const TrainingRun &run) {
  std::string error;
  if (!(run.weights.empty() ? engine.initialize(run.seed, error)
                            : engine.loadParameters(run.weights, error)))
    return error;
  size_t perStep = engine.tokenCount();
  std::vector<int32_t> tokens;
  if (!run.tokens.empty()) {
    error = readTokens(run.tokens, perStep, tokens);
    if (!error.empty())
      return error;
  }
  for (uint64_t step = 0; step < run.steps; ++step) {
    std::vector<int32_t> input;
    if (tokens.empty()) {
      input = engine.randomTokens(run.seed, int64_t(step));
    } else {
      auto first = tokens.begin() + step % (tokens.size() / perStep) * perStep;
      input.assign(first, first + perStep);
    }
    StepResult result;
    auto start = std::chrono::steady_clock::now();
    if (!engine.step(input, result, error))
      return "step " + std::to_string(step + 1) + ": " + error;
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    if (engine.rank() == 0) {
      std::printf("step %" PRIu64 " loss %.9g grad_norm %.9g", step + 1,
                  result.loss, result.gradNorm);
      int64_t length = engine.sequence();
      if (run.timing)
        std::printf(" tokens/s %.9g",
                    double(perStep / (length + 1) * length) / seconds.count());
      std::printf("\n");
      std::fflush(stdout);
    }
    // Nothing that follows would be a number.
    if (!std::isfinite(result.loss) || !std::isfinite(result.gradNorm))
      return "step " + std::to_string(step + 1) + ": the " +
             (std::isfinite(result.loss) ? "gradient's norm" : "loss") +
             " is not finite";
  }
  if ((run.save.empty() || engine.saveParameters(run.save, error)) &&
      !run.saveGradients.empty())
    engine.saveGradients(run.saveGradients, error);
  return error;
}
