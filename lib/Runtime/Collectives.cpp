//===- Collectives.cpp - Moving data between ranks ------------------------===//

#include "Collectives.h"

#include <algorithm>
#include <cstring>

using namespace moert;

bool moert::sameTransfer(const Op &send, const Op &recv) {
  const Operand &x = send.operands[0], &y = recv.operands[0];
  return x.type == y.type && x.elements() == y.elements();
}

bool moert::sameCollective(const Op &a, const Op &b) {
  if (a.collective != b.collective || a.operands.size() != b.operands.size())
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (a.operands[i].type != b.operands[i].type ||
        a.operands[i].shape != b.operands[i].shape)
      return false;
  return true;
}

namespace {

template <typename T> T *pointer(const Part &part, size_t operand) {
  return static_cast<T *>(part.pointers[operand]);
}

/// A copy that may be onto itself: collectives may run in place.
void move(void *to, const void *from, int64_t bytes) {
  if (bytes)
    std::memmove(to, from, bytes);
}

/// Reduces elements [begin, end) of every part's x in member order and hands
/// them on by pieces, each read from all before it is written anywhere.
template <typename T, typename Combine, typename Store>
void reduce(const std::vector<Part> &parts, int64_t begin, int64_t end,
            Combine combine, Store store) {
  constexpr int64_t piece = 4096;
  T sum[piece];
  for (int64_t at = begin; at < end; at += piece) {
    int64_t n = std::min(piece, end - at);
    std::copy_n(pointer<T>(parts[0], 0) + at, n, sum);
    for (size_t m = 1; m < parts.size(); ++m) {
      const T *x = pointer<T>(parts[m], 0) + at;
      for (int64_t i = 0; i < n; ++i)
        sum[i] = combine(sum[i], x[i]);
    }
    store(at, n, sum);
  }
}

template <typename T, typename Combine>
void allReduce(const std::vector<Part> &parts, Combine combine) {
  reduce<T>(parts, 0, parts[0].op->operands[0].elements(), combine,
            [&](int64_t at, int64_t n, const T *sum) {
              for (const Part &part : parts)
                std::copy_n(sum, n, pointer<T>(part, 1) + at);
            });
}

float plus(float a, float b) { return a + b; }

void reduceScatter(const std::vector<Part> &parts) {
  int64_t block = parts[0].op->operands[1].elements();
  for (size_t m = 0; m < parts.size(); ++m) {
    int64_t begin = m * block;
    reduce<float>(parts, begin, begin + block, plus,
                  [&](int64_t at, int64_t n, const float *sum) {
                    std::copy_n(sum, n,
                                pointer<float>(parts[m], 1) + at - begin);
                  });
  }
}

void allGather(const std::vector<Part> &parts) {
  int64_t bytes = parts[0].op->operands[0].bytes();
  for (const Part &to : parts)
    for (size_t m = 0; m < parts.size(); ++m)
      move(pointer<char>(to, 1) + m * bytes, parts[m].pointers[0], bytes);
}

void exchangeCounts(const std::vector<Part> &parts) {
  int64_t bytes = parts[0].op->operands[0].bytes() / parts.size();
  for (size_t to = 0; to < parts.size(); ++to)
    for (size_t from = 0; from < parts.size(); ++from)
      move(pointer<char>(parts[to], 1) + from * bytes,
           pointer<char>(parts[from], 0) + to * bytes, bytes);
}

std::string number(int64_t n) { return std::to_string(n); }

/// Rows of the members' blocks: sums over each block, and of all.
struct Blocks {
  std::vector<int64_t> rows;
  int64_t total = 0;
  bool negative = false;

  Blocks(const int32_t *counts, int64_t size, int64_t members) {
    rows.resize(members);
    for (int64_t m = 0; m < members; ++m)
      for (int64_t i = 0; i < size / members; ++i) {
        int32_t count = *counts++;
        negative |= count < 0;
        rows[m] += count;
      }
    for (int64_t n : rows)
      total += n;
  }
};

int64_t rowBytes(const Operand &x) {
  int64_t bytes = elementBytes(x.type);
  for (size_t i = 1; i < x.shape.size(); ++i)
    bytes *= x.shape[i];
  return bytes;
}

std::string allToAll(const std::vector<Part> &parts, size_t &member) {
  size_t size = parts.size();
  const std::vector<Operand> &operands = parts[0].op->operands;
  const Operand &x = operands[0], &y = operands[4];
  int64_t entries = operands[1].elements();
  int64_t width = rowBytes(x);

  std::vector<Blocks> send, recv;
  for (const Part &part : parts) {
    send.emplace_back(pointer<int32_t>(part, 1), entries, size);
    recv.emplace_back(pointer<int32_t>(part, 2), entries, size);
  }
  for (member = 0; member < size; ++member) {
    if (send[member].negative || recv[member].negative)
      return "has a negative count";
    if (send[member].total > x.shape[0])
      return "sends " + number(send[member].total) + " rows of " +
             number(x.shape[0]);
    for (size_t to = 0; to < size; ++to)
      if (send[member].rows[to] != recv[to].rows[member])
        return "sends " + number(send[member].rows[to]) + " rows to member " +
               number(to) + ", which expects " + number(recv[to].rows[member]);
  }

  std::string overflow;
  std::vector<int64_t> written(size);
  for (size_t from = 0; from < size; ++from) {
    const char *rows = pointer<char>(parts[from], 0);
    for (size_t to = 0; to < size; ++to) {
      int64_t n = send[from].rows[to];
      int64_t fits = std::min(n, y.shape[0] - written[to]);
      move(pointer<char>(parts[to], 4) + written[to] * width, rows,
           fits * width);
      written[to] += fits;
      rows += n * width;
    }
  }
  for (size_t m = size; m-- > 0;)
    if (recv[m].total > y.shape[0]) {
      *pointer<int32_t>(parts[m], 3) = 1 + std::max<int64_t>(parts[m].layer, 0);
      member = m;
      overflow = "overflows: layer " + number(parts[m].layer) + " needs " +
                 number(recv[m].total) + " rows, its capacity is " +
                 number(y.shape[0]);
    }
  return overflow;
}

} // namespace

int64_t moert::sentBytes(const Part &part) {
  const std::vector<Operand> &operands = part.op->operands;
  if (part.op->collective != CollectiveKind::AllToAll)
    return operands[0].bytes();
  Blocks send(pointer<int32_t>(part, 1), operands[1].elements(), 1);
  return send.total * rowBytes(operands[0]);
}

std::string moert::runCollective(const std::vector<Part> &parts,
                                 size_t &member) {
  switch (parts[0].op->collective) {
  case CollectiveKind::ExchangeCounts:
    exchangeCounts(parts);
    break;
  case CollectiveKind::AllToAll:
    return allToAll(parts, member);
  case CollectiveKind::AllReduceSum:
    allReduce<float>(parts, plus);
    break;
  case CollectiveKind::AllReduceMax:
    allReduce<int32_t>(parts,
                       [](int32_t a, int32_t b) { return std::max(a, b); });
    break;
  case CollectiveKind::ReduceScatter:
    reduceScatter(parts);
    break;
  case CollectiveKind::AllGather:
    allGather(parts);
    break;
  }
  return "";
}
