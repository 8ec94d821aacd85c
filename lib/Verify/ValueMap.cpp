//===- ValueMap.cpp - Hashes of expressions, and maps of them -------------===//

#include "moe/Verify/ValueMap.h"

#include <cstring>

using namespace moert;
using namespace moert::value;

//===----------------------------------------------------------------------===//
// Hashes
//===----------------------------------------------------------------------===//

/// Bijective in `x` for each `seed` (the finalizer of MurmurHash3).
static uint64_t mix(uint64_t seed, uint64_t x) {
  uint64_t h = seed * 0x9E3779B97F4A7C15ull + x + 0x632BE59BD9B4E019ull;
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDull;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return h ^ (h >> 33);
}

static uint64_t mix(uint64_t seed, const std::string &text) {
  seed = mix(seed, text.size());
  for (unsigned char c : text)
    seed = mix(seed, c);
  return seed;
}

// First arguments of mix: one for each form of expression.
enum Form : uint64_t { Initial = 1, Apply, Kernel_, Collective_, Pieces };

uint64_t value::initial(const std::string &name) { return mix(Initial, name); }

uint64_t value::apply(uint64_t signature, const std::vector<uint64_t> &operands,
                      uint32_t result) {
  uint64_t h = mix(mix(Apply, signature), operands.size());
  for (uint64_t operand : operands)
    h = mix(h, operand);
  return mix(h, result);
}

uint64_t value::kernelSignature(const Kernel &kernel) {
  uint64_t h = mix(Kernel_, kernel.op.empty() ? kernel.name : kernel.op);
  for (const auto &[name, number] : kernel.attributes) {
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    h = mix(mix(h, name), bits);
  }
  return h;
}

uint64_t value::collectiveSignature(CollectiveKind kind,
                                    const std::string &communicator) {
  return mix(mix(Collective_, uint64_t(kind)), communicator);
}

uint64_t value::signatureOf(const Table &table, const Op &op) {
  uint64_t h;
  if (op.kind == OpKind::Launch) {
    h = kernelSignature(table.kernels[op.kernel]);
    if (apply(h, {}, 0) == zero())
      return h;
  } else if (op.kind == OpKind::Collective) {
    h = collectiveSignature(op.collective,
                            table.communicators[op.communicator].name);
    if (op.collective != CollectiveKind::AllToAll)
      return h;
  } else {
    return 0;
  }
  for (const Operand &operand : op.operands) {
    h = mix(mix(h, uint64_t(operand.type)), operand.shape.size());
    for (int64_t dim : operand.shape)
      h = mix(h, dim);
  }
  return h;
}

uint64_t value::zero() {
  static const uint64_t result = [] {
    Kernel kernel;
    kernel.op = "zero";
    return apply(kernelSignature(kernel), {}, 0);
  }();
  return result;
}

void value::append(std::vector<Piece> &pieces, Piece piece) {
  if (piece.length == 0)
    return;
  if (piece.value == zero()) {
    piece.offset = 0;
    piece.total = piece.length;
  }
  if (!pieces.empty() && pieces.back().value == piece.value) {
    Piece &last = pieces.back();
    if (piece.value == zero()) {
      last.length += piece.length;
      last.total = last.length;
      return;
    }
    if (last.total == piece.total && last.offset + last.length == piece.offset)
      return void(last.length += piece.length);
  }
  pieces.push_back(piece);
}

uint64_t value::combine(const std::vector<Piece> &pieces) {
  if (pieces.size() == 1 && pieces[0].length == pieces[0].total)
    return pieces[0].value;
  uint64_t h = mix(Pieces, pieces.size());
  for (const Piece &piece : pieces)
    h = mix(mix(mix(h, piece.value), piece.offset), piece.length);
  return h;
}

uint64_t value::slice(uint64_t value, int64_t offset, int64_t length,
                      int64_t total) {
  std::vector<Piece> pieces;
  append(pieces, {value, offset, length, total});
  return combine(pieces);
}

uint64_t value::concat(const std::vector<std::pair<uint64_t, int64_t>> &parts) {
  std::vector<Piece> pieces;
  for (auto [value, bytes] : parts)
    append(pieces, {value, 0, bytes, bytes});
  return combine(pieces);
}

//===----------------------------------------------------------------------===//
// ValueMap
//===----------------------------------------------------------------------===//

void ValueMap::cut(int64_t at) {
  auto next = entries.upper_bound(at);
  if (next == entries.begin())
    return;
  auto entry = std::prev(next);
  if (entry->first == at || entry->second.end <= at)
    return;
  int64_t head = at - entry->first;
  Entry tail = entry->second;
  tail.piece.offset += head;
  tail.piece.length -= head;
  entry->second.end = at;
  entry->second.piece.length = head;
  entries.emplace_hint(next, at, tail);
}

void ValueMap::write(Range range, uint64_t value) {
  int64_t bytes = range.end - range.begin;
  if (bytes <= 0)
    return;
  cut(range.begin);
  cut(range.end);
  entries.erase(entries.lower_bound(range.begin),
                entries.lower_bound(range.end));
  entries[range.begin] = {range.end, {value, 0, bytes, bytes}};
}

uint64_t ValueMap::read(Range range) const {
  static const uint64_t undefined = initial("undefined");
  std::vector<Piece> pieces;
  int64_t at = range.begin;
  auto gapUntil = [&](int64_t end) {
    if (at < end)
      append(pieces, {undefined, at, end - at, INT64_MAX});
  };
  auto it = entries.upper_bound(range.begin);
  if (it != entries.begin() && std::prev(it)->second.end > range.begin)
    --it;
  for (; it != entries.end() && it->first < range.end; ++it) {
    gapUntil(it->first);
    at = std::max(at, it->first);
    int64_t end = std::min(range.end, it->second.end);
    Piece piece = it->second.piece;
    piece.offset += at - it->first;
    piece.length = end - at;
    append(pieces, piece);
    at = end;
  }
  gapUntil(range.end);
  return combine(pieces);
}

//===----------------------------------------------------------------------===//
// The step's inputs and results
//===----------------------------------------------------------------------===//

static std::vector<NamedRange> shards(const Table &table, const Bucket &b) {
  int64_t bytes = b.elements / table.communicators[b.communicator].size * 4;
  return {{b.name + ":master", {b.master, b.master + bytes}},
          {b.name + ":moment1", {b.moment1, b.moment1 + bytes}},
          {b.name + ":moment2", {b.moment2, b.moment2 + bytes}}};
}

static void addParameters(const Program &program,
                          std::vector<NamedRange> &ranges) {
  for (const Parameter &p : program.parameters) {
    int64_t elements = 1;
    for (int64_t dim : p.shape)
      elements *= dim;
    const std::string &name = p.names.front();
    ranges.push_back(
        {name, {p.address, p.address + elements * elementBytes(p.type)}});
    ranges.push_back(
        {name + ":gradient", {p.gradient, p.gradient + elements * 4}});
  }
}

static void addScalar(const std::string &name, int64_t address,
                      std::vector<NamedRange> &ranges, int64_t bytes = 4) {
  if (address != -1)
    ranges.push_back({name, {address, address + bytes}});
}

std::vector<NamedRange> moert::initialRanges(const Table &table,
                                             uint32_t program) {
  const Program &p = table.programs[program];
  std::vector<NamedRange> ranges;
  for (const Bucket &bucket : p.buckets) {
    int64_t end = bucket.gradients + bucket.elements * 4;
    ranges.push_back({bucket.name + ":gradients", {bucket.gradients, end}});
    // The values have the type of the parameters whose gradients lie within.
    for (const Parameter &parameter : p.parameters)
      if (parameter.gradient >= bucket.gradients && parameter.gradient < end) {
        int64_t bytes = bucket.elements * elementBytes(parameter.type);
        ranges.push_back({bucket.name + ":weights",
                          {bucket.weights, bucket.weights + bytes}});
        break;
      }
    for (NamedRange &shard : shards(table, bucket))
      ranges.push_back(std::move(shard));
  }
  addParameters(p, ranges);
  int64_t ids =
      table.microBatches * table.microBatchSamples * table.sequence * 4;
  addScalar("tokens", p.tokens, ranges, ids);
  addScalar("labels", p.labels, ranges, ids);
  addScalar("loss", p.loss, ranges);
  addScalar("flag", p.flag, ranges);
  addScalar("step", p.step, ranges);
  return ranges;
}

std::vector<NamedRange> moert::finalRanges(const Table &table,
                                           uint32_t program) {
  const Program &p = table.programs[program];
  std::vector<NamedRange> ranges;
  addScalar("loss", p.loss, ranges);
  addScalar("gradNorm", p.gradNorm, ranges);
  addParameters(p, ranges);
  for (const Bucket &bucket : p.buckets)
    for (NamedRange &shard : shards(table, bucket))
      ranges.push_back(std::move(shard));
  return ranges;
}
