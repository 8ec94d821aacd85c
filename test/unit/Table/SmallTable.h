//===- SmallTable.h - A small well-formed table for tests -----------------===//

#ifndef MOE_TEST_UNIT_TABLE_SMALLTABLE_H
#define MOE_TEST_UNIT_TABLE_SMALLTABLE_H

#include "moe/Table/Table.h"

/// Two ranks of one program; a forward template called twice and a backward
/// template that waits for the first forward's last op.
inline moert::Table smallTable() {
  using namespace moert;
  Table table;
  table.model = "m";
  table.target = "t";
  table.ranks = 2;
  table.initStd = 0.1;
  table.streams = {{"compute", 1}, {"comm", 0}};
  table.communicators = {{"ep", 2, 1, 8}};
  Kernel kernel;
  kernel.name = "k";
  kernel.op = "add";
  kernel.effects = {Effect::Read, Effect::Read, Effect::Write};
  kernel.attributes = {{"eps", 1e-6}};
  kernel.flops = 1.0 / 3;
  table.kernels = {kernel};

  Template forward;
  forward.name = "forward";
  forward.frames = {{"x", FrameKind::Carried, 64},
                    {"counts", FrameKind::Host, 16},
                    {"flag", FrameKind::Global, 4}};
  Operand a{0, 0, ElementType::F32, {4}, Effect::Read};
  Operand b{0, 16, ElementType::F32, {4}, Effect::Read};
  Operand c{0, 32, ElementType::F32, {4}, Effect::Write};
  Op add;
  add.operands = {a, b, c};
  add.location = "layers.{i}.add mb {mb}";
  Op read;
  read.kind = OpKind::HostRead;
  read.stream = 1;
  read.waits = {{false, 0}};
  read.operands = {{0, 48, ElementType::I32, {2}, Effect::Read},
                   {1, 0, ElementType::I32, {2}, Effect::Write}};
  read.location = "read";
  Op move;
  move.kind = OpKind::Collective;
  move.stream = 1;
  move.operands = {{0, 0, ElementType::F32, {4}, Effect::Read},
                   {1, 0, ElementType::I32, {2}, Effect::Read},
                   {1, 0, ElementType::I32, {2}, Effect::Read},
                   {2, 0, ElementType::I32, {1}, Effect::ReadWrite},
                   {0, 32, ElementType::F32, {4}, Effect::Write}};
  forward.ops = {add, read, move};

  Template backward;
  backward.name = "backward";
  backward.frames = {{"x", FrameKind::Carried, 64}};
  backward.imports = {"forward"};
  backward.captures = {{"g"}};
  add.half = "B";
  add.waits = {{true, 0}};
  add.capture = 0;
  backward.ops = {add};
  table.templates = {forward, backward};

  Program program;
  program.name = "p";
  program.rankCount = 2;
  program.arenaBytes = 256;
  program.calls = {{0, {0, 64, 80}, {}, 0, -1, 0, -1},
                   {0, {0, 64, 80}, {}, 1, -1, 0, -1},
                   {1, {0}, {{0, 2}}, -1, 1, -1, 3}};
  Parameter parameter;
  parameter.names = {"w0", "w1"};
  parameter.shape = {2, 2};
  parameter.storedShape = {2, 2};
  parameter.shardedOver = 0;
  parameter.address = 96;
  parameter.gradient = 112;
  program.parameters = {parameter};
  program.buckets = {{"b", 0, 4, 96, 112, 128, 136, 144}};
  program.flag = 80;
  table.programs = {program};
  return table;
}

#endif // MOE_TEST_UNIT_TABLE_SMALLTABLE_H
