//===- Events.h - Waits between streams -----------------------------------===//

#ifndef MOE_SCHEDULE_EVENTS_H
#define MOE_SCHEDULE_EVENTS_H

#include "moe/Table/Table.h"

namespace moert {

/// Replaces all waits, imports and their bindings by those that order every
/// use of a byte after the ones it depends on, and no more than streams, host
/// reads and other waits do not order already.
///
/// Frames are taken as allocated in slots: two calls' frames have one base or
/// no byte in common. Calls of templates that use whole buckets (`barriers`,
/// by template index) are ordered after all calls before and before all after.
void assignEvents(Table &table, const std::vector<bool> &barriers);

} // namespace moert

#endif // MOE_SCHEDULE_EVENTS_H
