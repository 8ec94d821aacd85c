//===- SimulateTest.cpp ---------------------------------------------------===//

#include "Tables.h"

#include <chrono>

using namespace moert;

namespace {

TEST(Simulate, StreamsOverlapAndWait) {
  TableBuilder b;
  Template &t = b.program("p");
  b.launch(t, 2);
  b.collective(t, 5, {0});
  b.launch(t, 3);
  b.launch(t, 1, {1});
  Simulation s = simulated(b.table, plainSystem());
  EXPECT_DOUBLE_EQ(s.makespan, 8);
  EXPECT_DOUBLE_EQ(s.programs[0].compute, 6);
  EXPECT_DOUBLE_EQ(s.programs[0].communication, 5);
  EXPECT_DOUBLE_EQ(s.programs[0].exposed, 2);
  ASSERT_EQ(s.timeline.size(), 4u);
  EXPECT_EQ(s.timeline[1].op, 2u);
  EXPECT_DOUBLE_EQ(s.timeline[1].start, 2);
  EXPECT_DOUBLE_EQ(s.timeline[1].end, 5);
}

TEST(Simulate, KernelsShareTheGpuAndCollectivesTheLink) {
  TableBuilder b;
  Template &t = b.program("p");
  b.launch(t, 2);
  b.launch(t, 4, {}, 1);
  // Both run at half rate to 4, then the second alone.
  EXPECT_DOUBLE_EQ(simulated(b.table, plainSystem()).makespan, 6);

  TableBuilder c;
  Template &u = c.program("p");
  c.collective(u, 2);
  c.collective(u, 2, {}, 2);
  EXPECT_DOUBLE_EQ(simulated(c.table, plainSystem()).makespan, 4);
  // Another link does not share: 16 apart, 1 byte is 20 seconds' half.
  c.table.communicators[0].stride = 8;
  u.ops[1].communicator = 1;
  c.table.communicators[1] = {"near", 2, 1, 0};
  u.ops[0].bytes = 1;
  EXPECT_DOUBLE_EQ(simulated(c.table, plainSystem()).makespan, 10);
}

TEST(Simulate, ContentionBothWays) {
  TableBuilder b;
  Template &t = b.program("p");
  b.launch(t, 8);
  b.collective(t, 4);
  System system = plainSystem();
  system.communicationSms = 20;
  system.communicationSlowdown = 0.2;
  // The collective takes 5, in which compute does 4; then 4 more.
  Simulation s = simulated(b.table, system);
  EXPECT_DOUBLE_EQ(s.makespan, 9);
  EXPECT_DOUBLE_EQ(s.programs[0].communication, 5);
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).device, 9);
  b.table.communicators[0].smBudget = 40;
  EXPECT_DOUBLE_EQ(simulated(b.table, system).makespan, 10);
}

TEST(Simulate, HostIssuesAndBlocks) {
  TableBuilder b;
  Template &t = b.program("p");
  b.launch(t, 2);
  Op read;
  read.kind = OpKind::HostRead;
  b.append(t, read, 0, {});
  b.launch(t, 2);
  System system = plainSystem();
  system.hostLaunch = 1;
  system.hostCopy = 0.5;
  system.hostCopyLatency = 0.25;
  system.hostSync = 0.125;
  // Issued at 1, runs to 3, copied by 3.25, seen at 3.375, issued at 4.375.
  Simulation s = simulated(b.table, system);
  EXPECT_DOUBLE_EQ(s.makespan, 6.375);
  EXPECT_DOUBLE_EQ(s.programs[0].hostBusy, 2.625);
  EXPECT_DOUBLE_EQ(s.programs[0].hostBlocked, 1.75);
  EXPECT_DOUBLE_EQ(s.programs[0].host, 2.125);
  EXPECT_DOUBLE_EQ(s.programs[0].copy, 0.25);
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).host, 2.625);
}

TEST(Simulate, CapturedRangesAreIssuedAtOnce) {
  TableBuilder b;
  Template &t = b.program("p");
  for (int i = 0; i < 4; ++i)
    b.launch(t, 1);
  t.captures = {{"g"}};
  System system = plainSystem();
  system.hostLaunch = 2;
  system.hostGraph = 3;
  EXPECT_DOUBLE_EQ(simulated(b.table, system).makespan, 9);
  for (int i = 1; i < 4; ++i)
    t.ops[i].capture = 0;
  // The first at 2, the graph at 5.
  EXPECT_DOUBLE_EQ(simulated(b.table, system).makespan, 8);
}

TEST(Simulate, ImportsNameOpsOfEarlierCalls) {
  TableBuilder b;
  Template &t = b.program("p", 2);
  t.imports = {"previous"};
  b.launch(t, 1).waits.push_back({true, 0});
  b.collective(t, 5, {0});
  b.table.programs[0].calls[0].imports = {{-1, 0}};
  b.table.programs[0].calls[1].imports = {{0, 1}};
  EXPECT_DOUBLE_EQ(simulated(b.table, plainSystem()).makespan, 12);
  b.table.programs[0].calls[1].imports = {{-1, 0}};
  EXPECT_DOUBLE_EQ(simulated(b.table, plainSystem()).makespan, 11);
}

/// Two stages, each forward and backward of one micro-batch.
void twoStages(TableBuilder &b) {
  b.table.templates.reserve(2);
  Template &first = b.program("stage0");
  b.launch(first, 3);
  b.sendOrRecv(first, OpKind::Send, 1, 0.1, {0});
  b.sendOrRecv(first, OpKind::Recv, 1, 0.1);
  b.launch(first, 4, {2});
  Template &second = b.program("stage1");
  b.sendOrRecv(second, OpKind::Recv, -1, 0.1);
  b.launch(second, 2, {0});
  b.launch(second, 5);
  b.sendOrRecv(second, OpKind::Send, -1, 0.1, {2});
  for (Template *t : {&first, &second})
    for (size_t i = 0; i < 4; ++i)
      t->ops[i].half = i < 2 ? "F" : "B";
}

TEST(Simulate, SendsMeetReceives) {
  TableBuilder b;
  twoStages(b);
  // 3, send 2, 2 + 5, send 2, 4.
  Simulation s = simulated(b.table, plainSystem());
  EXPECT_DOUBLE_EQ(s.makespan, 18);
  EXPECT_DOUBLE_EQ(s.programs[0].bubble, 7);
  EXPECT_DOUBLE_EQ(s.programs[1].bubble, 3 + 4);
  EXPECT_DOUBLE_EQ(s.programs[1].end, 14);
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, plainSystem()).pipeline, 14);
}

TEST(Simulate, CollectivesOverProgramsStartTogether) {
  TableBuilder b;
  b.table.templates.reserve(2);
  b.table.communicators[1] = {"world", 16, 1, 0};
  Template &first = b.program("a");
  b.launch(first, 3);
  b.collective(first, 1, {0}, 1, 1);
  Template &second = b.program("b");
  b.collective(second, 1, {}, 1, 1);
  Simulation s = simulated(b.table, plainSystem());
  EXPECT_DOUBLE_EQ(s.programs[1].bubble, 3);
  EXPECT_DOUBLE_EQ(s.programs[0].end, s.programs[1].end);
}

TEST(Simulate, DeadlockNamesOneOpAProgram) {
  TableBuilder b;
  twoStages(b);
  // The first stage receives before it sends, on one stream.
  std::swap(b.table.templates[0].ops[1], b.table.templates[0].ops[2]);
  b.table.templates[0].ops[1].waits.clear();
  Simulation result;
  std::string error;
  EXPECT_FALSE(simulate(b.table, plainSystem(), false, result, error));
  EXPECT_EQ(error, "ops wait for each other: stage0 op2 mb 0 on comm, "
                   "stage1 op0 mb 0 on comm");
  EXPECT_TRUE(result.programs.empty());
}

TEST(Simulate, TraceIsJson) {
  TableBuilder b;
  Template &t = b.program("a \"stage\"");
  b.launch(t, 2).half = "F";
  System system = plainSystem();
  EXPECT_EQ(toTrace(b.table, simulated(b.table, system)),
            "{\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"tid\":0,"
            "\"args\":{\"name\":\"a \\\"stage\\\"\"}},\n"
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,"
            "\"args\":{\"name\":\"compute\"}},\n"
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":1,"
            "\"args\":{\"name\":\"comm\"}},\n"
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":2,"
            "\"args\":{\"name\":\"comm2\"}},\n"
            "{\"ph\":\"X\",\"name\":\"op0 mb 0\",\"cat\":\"F\",\"pid\":0,"
            "\"tid\":0,\"ts\":0.000,\"dur\":2000000.000}\n"
            "]}\n");
}

TEST(Simulate, EmptyTable) {
  TableBuilder b;
  EXPECT_EQ(simulated(b.table, plainSystem()).makespan, 0);
  b.program("p");
  EXPECT_EQ(simulated(b.table, plainSystem()).makespan, 0);
}

TEST(Simulate, FourHundredThousandOps) {
  TableBuilder b;
  Template &t = b.program("p", 4000);
  for (uint32_t i = 0; i < 100; i += 2) {
    b.launch(t, 1 + i % 7,
             i ? std::vector<uint32_t>{i - 1} : std::vector<uint32_t>{});
    b.collective(t, 1 + i % 5, {i});
  }
  System system = plainSystem();
  system.communicationSms = 10;
  Simulation result;
  std::string error;
  auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(simulate(b.table, system, false, result, error));
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(took.count() * 1e3));
  // An order of magnitude above what it takes: only a blow-up fails.
  EXPECT_LT(took.count(), 2.0);
}

} // namespace
