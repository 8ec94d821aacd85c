//===- Systems.h - Families of machines -----------------------------------===//

#ifndef MOE_LIB_COST_SYSTEMS_H
#define MOE_LIB_COST_SYSTEMS_H

#include "moe/Cost/System.h"

namespace moert {

struct Family {
  const char *name;
  /// Without name and number of GPUs.
  System system;
};
std::vector<Family> systemFamilies();

} // namespace moert

#endif // MOE_LIB_COST_SYSTEMS_H
