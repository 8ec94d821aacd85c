//===- CApiTest.cpp -------------------------------------------------------===//

#include "HandMade.h"

#include <cstdio>
#include <unistd.h>

using namespace moert;
using namespace moert::test;

extern "C" int useFromC(const char *json, const char *file, char *error);

TEST(CApi, TrainsFromC) {
  HandMade h(1);
  h.launch("twice", 0, {h.read(kIn), h.write(kOut)}, {});
  char error[256];
  std::string file = ::testing::TempDir() + "capi." + std::to_string(getpid()) +
                     ".safetensors";
  EXPECT_EQ(useFromC(toJson(h.table).c_str(), file.c_str(), error), 0) << error;
  std::remove(file.c_str());
}
