//===- CApiTest.cpp -------------------------------------------------------===//

#include "HandMade.h"

using namespace moert;
using namespace moert::test;

extern "C" int useFromC(const char *json, char *error);

TEST(CApi, TrainsFromC) {
  HandMade h(1);
  h.launch("twice", 0, {h.read(kIn), h.write(kOut)}, {});
  char error[256];
  EXPECT_EQ(useFromC(toJson(h.table).c_str(), error), 0) << error;
}
