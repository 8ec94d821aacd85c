//===- JsonTest.cpp -------------------------------------------------------===//

#include "SmallTable.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

/// The text of the small table with the first `from` replaced.
std::string edited(const std::string &from, const std::string &to) {
  std::string text = toJson(smallTable());
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string errorOf(const std::string &text) {
  Table table;
  std::string error;
  EXPECT_FALSE(fromJson(text, table, error));
  EXPECT_TRUE(table.programs.empty());
  return error;
}

TEST(Json, RoundTripIsExact) {
  Table in = smallTable(), out;
  in.kernels[0].attributes["third"] = 1.0 / 3;
  in.kernels[0].bytes = 5e-324;
  in.memoryLimit = INT64_MAX;
  in.streams[0].priority = INT32_MIN;
  std::string error;
  ASSERT_TRUE(fromJson(toJson(in), out, error)) << error;
  EXPECT_EQ(toJson(in), toJson(out));
  EXPECT_EQ(out.kernels[0].attributes, in.kernels[0].attributes);
  EXPECT_EQ(out.kernels[0].flops, 1.0 / 3);
  EXPECT_EQ(out.kernels[0].bytes, 5e-324);
  EXPECT_EQ(out.memoryLimit, INT64_MAX);
  EXPECT_EQ(out.streams[0].priority, INT32_MIN);
  EXPECT_EQ(out.templates[0].ops[2].operands[3].effect, Effect::ReadWrite);
  EXPECT_EQ(out.programs[0].calls[2].imports[0].op, 2u);
}

TEST(Json, MissingKeyIsNamed) {
  EXPECT_EQ(errorOf(edited("\"stride\":1,", "")),
            "'communicators[0].stride' is missing");
}

TEST(Json, WrongTypesAreNamed) {
  EXPECT_EQ(errorOf(edited("\"size\":2", "\"size\":2.5")),
            "'communicators[0].size' must be an integer");
  EXPECT_EQ(errorOf(edited("\"priority\":1", "\"priority\":3000000000")),
            "'streams[0].priority' is out of range");
  EXPECT_EQ(errorOf(edited("\"kind\":\"launch\"", "\"kind\":\"lunch\"")),
            "'templates[0].ops[0].kind' is 'lunch', must be one of launch, "
            "collective, send, recv, host_read");
  EXPECT_EQ(errorOf(edited("\"stream\":0", "\"stream\":-1")),
            "'templates[0].ops[0].stream' is out of range");
  EXPECT_EQ(errorOf(edited("\"eps\":1e-06", "\"eps\":null")),
            "'kernels[0].attributes.eps' must be a number");
  EXPECT_EQ(errorOf(edited("\"isImport\":false", "\"isImport\":0")),
            "'templates[0].ops[1].waits[0].isImport' must be true or false");
  EXPECT_EQ(errorOf(edited("\"imports\":[]", "\"imports\":{}")).substr(0, 32),
            "'programs[0].calls[0].imports' m");
  EXPECT_EQ(errorOf("[]"), "the table must be an object");
}

TEST(Json, UnknownKeyIsNamed) {
  EXPECT_EQ(errorOf(edited("\"stride\":1,", "\"stride\":1,\"pace\":1,")),
            "'communicators[0].pace' is unknown");
}

TEST(Json, UnknownVersionIsNamed) {
  EXPECT_EQ(errorOf("{\"version\": 99}"),
            "'version' is 99, this reader knows 1");
}

TEST(Json, MalformedTextIsAnError) {
  std::string text = toJson(smallTable());
  for (size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_EQ(errorOf(text.substr(0, size)).rfind("malformed JSON: ", 0), 0u);
  EXPECT_NE(errorOf("{\"version\": 1e999}"), "");
}

TEST(Json, BadUtf8IsWritten) {
  Table table = smallTable(), out;
  table.model = "\xff";
  std::string error;
  EXPECT_TRUE(fromJson(toJson(table), out, error)) << error;
}

} // namespace
