//===- Trace.cpp - A simulated step as a Chrome trace ---------------------===//

#include "moe/Cost/Simulate.h"
#include "moe/Table/ScheduleView.h"

#include <cstdio>

using namespace moert;

static std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", c);
      result += buffer;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

static std::string nameEvent(const char *kind, size_t process, size_t thread,
                             const std::string &name) {
  return std::string("{\"ph\":\"M\",\"name\":\"") + kind +
         "\",\"pid\":" + std::to_string(process) +
         ",\"tid\":" + std::to_string(thread) +
         ",\"args\":{\"name\":" + quoted(name) + "}}";
}

std::string moert::toTrace(const Table &table, const Simulation &simulation) {
  std::string text = "{\"traceEvents\":[\n";
  const char *comma = "";
  auto event = [&](const std::string &line) {
    text += comma + line;
    comma = ",\n";
  };
  std::vector<ScheduleView> views;
  for (uint32_t p = 0; p < table.programs.size(); ++p) {
    views.emplace_back(table, p);
    event(nameEvent("process_name", p, 0, table.programs[p].name));
    for (size_t s = 0; s < table.streams.size(); ++s)
      event(nameEvent("thread_name", p, s, table.streams[s].name));
  }
  for (const TimedOp &timed : simulation.timeline) {
    const Op &op = views[timed.program].op(timed.call, timed.op);
    char times[96];
    std::snprintf(times, sizeof(times), "\"ts\":%.3f,\"dur\":%.3f",
                  timed.start * 1e6, (timed.end - timed.start) * 1e6);
    event("{\"ph\":\"X\",\"name\":" +
          quoted(views[timed.program].location(timed.call, timed.op)) +
          ",\"cat\":" + quoted(op.half) +
          ",\"pid\":" + std::to_string(timed.program) +
          ",\"tid\":" + std::to_string(op.stream) + "," + times + "}");
  }
  return text + "\n]}\n";
}
