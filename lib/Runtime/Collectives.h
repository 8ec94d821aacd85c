//===- Collectives.h - Moving data between ranks --------------------------===//

#ifndef MOE_LIB_RUNTIME_COLLECTIVES_H
#define MOE_LIB_RUNTIME_COLLECTIVES_H

#include "moe/Table/Table.h"

namespace moert {

/// One member's part in a collective: its op, a pointer for each operand, and
/// the layer that an overflow is reported for (-1: none).
struct Part {
  const Op *op = nullptr;
  void *const *pointers = nullptr;
  int64_t layer = -1;
};

/// Moves the data of all members, in member order, so that the bits are always
/// the same. Ops must agree (sameCollective). Returns what is wrong, with
/// `member` the index of the part it is wrong for; empty: done.
std::string runCollective(const std::vector<Part> &parts, size_t &member);

/// Bytes that the member of a collective hands over, its own share included:
/// of an all-to-all the rows that its counts name. Reads them, so call it
/// before another op may change them.
int64_t sentBytes(const Part &part);

/// Do two members issue the same collective over the same shapes and types?
bool sameCollective(const Op &a, const Op &b);
/// Do a send and a receive move the same type and number of elements?
bool sameTransfer(const Op &send, const Op &recv);

} // namespace moert

#endif // MOE_LIB_RUNTIME_COLLECTIVES_H
