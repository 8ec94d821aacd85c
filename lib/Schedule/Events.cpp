#include "moe/Schedule/Events.h"

#include "moe/Table/ScheduleView.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace moert {
namespace {

constexpr uint32_t kMaxStreams = 8;
using Clock = std::array<int64_t, kMaxStreams>;

constexpr Clock emptyClock() {
  Clock clock{};
  for (int64_t &c : clock)
    c = -1;
  return clock;
}

void join(Clock &into, const Clock &from) {
  for (uint32_t s = 0; s < kMaxStreams; ++s)
    into[s] = std::max(into[s], from[s]);
}

/// Last uses of one buffer, as flat op indices.
struct Uses {
  int64_t write = -1;
  Clock reads = emptyClock();
  /// `reads` before the call that used it last: that call's own uses of one
  /// part of a temporary must not hide an earlier call's of another part.
  Clock earlierReads = emptyClock();
  int64_t call = -1;

  void enterCall(int64_t index) {
    if (call == index)
      return;
    call = index;
    earlierReads = reads;
  }
};

/// What names a buffer: its address; temporaries are one buffer a frame, as
/// their parts share bytes.
struct Access {
  uint32_t frame;
  int64_t offset;
  bool write;
  bool flag;
};

class EventAssigner {
public:
  EventAssigner(Table &table, const std::vector<bool> &barriers)
      : table(table), barriers(barriers) {
    for (Template &tmpl : table.templates) {
      tmpl.imports.clear();
      for (Op &op : tmpl.ops)
        op.waits.clear();
      std::vector<std::vector<Access>> accesses;
      for (const Op &op : tmpl.ops)
        accesses.push_back(accessesOf(tmpl, op));
      templateAccesses.push_back(std::move(accesses));
    }
    importSlots.resize(table.templates.size());
  }

  void run() {
    for (uint32_t p = 0; p < table.programs.size(); ++p)
      runProgram(p);
    // Each call binds every import; what it does not need is done already.
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      std::vector<Call> &calls = table.programs[p].calls;
      for (Call &call : calls)
        call.imports.assign(table.templates[call.tmpl].imports.size(),
                            EventRef());
      for (const Binding &binding : bindings[p])
        calls[binding.call].imports[binding.slot] = binding.event;
    }
  }

private:
  struct Binding {
    int64_t call;
    uint32_t slot;
    EventRef event;
  };

  std::vector<Access> accessesOf(const Template &tmpl, const Op &op) {
    std::vector<Access> accesses;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Operand &operand = op.operands[i];
      bool temporary = tmpl.frames[operand.frame].kind == FrameKind::Temporary;
      bool flag = op.kind == OpKind::Collective &&
                  op.collective == CollectiveKind::AllToAll && i == 3;
      accesses.push_back({operand.frame, temporary ? 0 : operand.offset,
                          operand.effect != Effect::Read, flag});
    }
    return accesses;
  }

  /// Ops of one call: hazards of temporaries by dependences among its ops.
  void localNeeds(const Template &tmpl, std::vector<Clock> &needs) {
    needs.assign(tmpl.ops.size(), emptyClock());
    for (size_t j = 0; j < tmpl.ops.size(); ++j)
      for (size_t i = 0; i < j; ++i) {
        uint32_t stream = tmpl.ops[i].stream;
        if (stream == tmpl.ops[j].stream ||
            needs[j][stream] >= static_cast<int64_t>(i))
          continue;
        if (conflict(tmpl, tmpl.ops[i], tmpl.ops[j]))
          needs[j][stream] = i;
      }
  }

  static bool conflict(const Template &, const Op &a, const Op &b) {
    for (const Operand &x : a.operands)
      for (const Operand &y : b.operands)
        if (x.frame == y.frame &&
            (x.effect != Effect::Read || y.effect != Effect::Read) &&
            x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes())
          return true;
    return false;
  }

  void runProgram(uint32_t p) {
    Program &program = table.programs[p];
    bindings.resize(table.programs.size());
    std::unordered_map<int64_t, Uses> uses;
    std::vector<Clock> clocks;
    std::vector<uint32_t> localOf;
    std::vector<int64_t> callOf;
    Clock last = emptyClock(), host = emptyClock();
    std::vector<std::vector<Clock>> needsOf(table.templates.size());
    Clock barrier = emptyClock();

    for (int64_t c = 0; c < static_cast<int64_t>(program.calls.size()); ++c) {
      const Call &call = program.calls[c];
      Template &tmpl = table.templates[call.tmpl];
      std::vector<Clock> &local = needsOf[call.tmpl];
      if (local.empty())
        localNeeds(tmpl, local);
      int64_t base = clocks.size();
      bool isBarrier = barriers[call.tmpl];
      if (isBarrier)
        barrier = last;
      for (uint32_t o = 0; o < tmpl.ops.size(); ++o) {
        const Op &op = tmpl.ops[o];
        const std::vector<Access> &accesses = templateAccesses[call.tmpl][o];
        Clock need = barrier;
        for (const Access &access : accesses) {
          Uses &use = uses[call.bases[access.frame] + access.offset];
          use.enterCall(c);
          if (use.write >= 0 && use.write < base)
            raise(need, use.write, callOf, localOf, program);
          if (access.write && !access.flag)
            for (uint32_t s = 0; s < table.streams.size(); ++s)
              need[s] = std::max(need[s], use.earlierReads[s]);
        }
        for (uint32_t s = 0; s < table.streams.size(); ++s)
          if (local[o][s] >= 0)
            need[s] = std::max(need[s], base + local[o][s]);

        Clock clock = host;
        if (last[op.stream] >= 0)
          join(clock, clocks[last[op.stream]]);
        // The latest first: it may cover the others.
        std::array<uint32_t, kMaxStreams> order;
        for (uint32_t s = 0; s < kMaxStreams; ++s)
          order[s] = s;
        std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
          return need[a] != need[b] ? need[a] > need[b] : a < b;
        });
        for (uint32_t s : order) {
          if (s == op.stream || need[s] <= clock[s])
            continue;
          join(clock, clocks[need[s]]);
          if (need[s] >= base)
            addLocal(tmpl, o, need[s] - base);
          else
            bindings[p].push_back({c,
                                   importSlot(call.tmpl, o, s),
                                   {callOf[need[s]], localOf[need[s]]}});
        }
        int64_t index = clocks.size();
        clock[op.stream] = index;
        clocks.push_back(clock);
        localOf.push_back(o);
        callOf.push_back(c);
        last[op.stream] = index;
        if (op.kind == OpKind::HostRead)
          join(host, clock);
        for (const Access &access : accesses) {
          Uses &use = uses[call.bases[access.frame] + access.offset];
          if (access.write && !access.flag) {
            // Temporaries: other parts' readers still count.
            bool temporary =
                tmpl.frames[access.frame].kind == FrameKind::Temporary;
            if (!temporary)
              use.reads = emptyClock();
            use.write = index;
          }
          use.reads[op.stream] = index;
        }
      }
      if (isBarrier)
        barrier = last;
    }
  }

  void raise(Clock &need, int64_t index, const std::vector<int64_t> &callOf,
             const std::vector<uint32_t> &localOf, const Program &program) {
    const Call &call = program.calls[callOf[index]];
    uint32_t stream = table.templates[call.tmpl].ops[localOf[index]].stream;
    need[stream] = std::max(need[stream], index);
  }

  static void addLocal(Template &tmpl, uint32_t op, int64_t on) {
    Wait wait{false, static_cast<uint32_t>(on)};
    std::vector<Wait> &waits = tmpl.ops[op].waits;
    if (std::find(waits.begin(), waits.end(), wait) == waits.end())
      waits.push_back(wait);
  }

  /// The import by which op `op` waits for something on stream `stream`.
  uint32_t importSlot(uint32_t tmpl, uint32_t op, uint32_t stream) {
    auto [it, added] = importSlots[tmpl].try_emplace(
        static_cast<uint64_t>(op) * kMaxStreams + stream,
        table.templates[tmpl].imports.size());
    if (added) {
      table.templates[tmpl].imports.push_back(table.streams[stream].name + "_" +
                                              std::to_string(op));
      table.templates[tmpl].ops[op].waits.push_back({true, it->second});
    }
    return it->second;
  }

  Table &table;
  const std::vector<bool> &barriers;
  std::vector<std::vector<std::vector<Access>>> templateAccesses;
  std::vector<std::unordered_map<uint64_t, uint32_t>> importSlots;
  std::vector<std::vector<Binding>> bindings;
};

} // namespace

void assignEvents(Table &table, const std::vector<bool> &barriers) {
  EventAssigner(table, barriers).run();
}

} // namespace moert
