//===- SafetensorsTest.cpp ------------------------------------------------===//

#include "moe/Runtime/Safetensors.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace moert;

namespace {

class SafetensorsTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) /
             ("safetensors." + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    path = folder / "file.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void writeBytes(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  /// A file of this header, with its true length, and this data.
  void writeParts(const std::string &header, const std::string &data) {
    uint64_t size = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    writeBytes(bytes + header + data);
  }
  /// The reason why the file cannot be read, without the path.
  template <typename Tensor> std::string readError() {
    std::vector<Tensor> tensors(1);
    std::string error;
    EXPECT_FALSE(readSafetensors(path, tensors, error));
    EXPECT_EQ(tensors.size(), 1u) << "a failed read changed the result";
    EXPECT_EQ(error.rfind(path + ": ", 0), 0u) << error;
    return error.substr(std::min(error.size(), path.size() + 2));
  }
  std::string headerError(const std::string &header,
                          const std::string &data = "01234567") {
    writeParts(header, data);
    return readError<NamedTensor>();
  }

  std::filesystem::path folder;
  std::string path, error;
};

template <typename T> std::string bytesOf(std::vector<T> values) {
  return std::string(reinterpret_cast<const char *>(values.data()),
                     values.size() * sizeof(T));
}

std::string entry(const std::string &name, const std::string &dtype,
                  const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST_F(SafetensorsTest, RoundTripKeepsOrderShapesAndBits) {
  float infinity = std::numeric_limits<float>::infinity();
  std::vector<NamedTensor> written = {
      {"z.weight", {2, 3}, {0.f, -0.f, 1.5f, infinity, -1e-42f, 3e38f}},
      {"none", {0, 7}, {}},
      {"a \"quoted\" name", {1}, {-2.f}},
      {"scalar", {}, {0.1f}}};
  ASSERT_TRUE(writeSafetensors(path, written, error)) << error;

  std::vector<NamedTensor> read;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  ASSERT_EQ(read.size(), written.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, written[i].name);
    EXPECT_EQ(read[i].shape, written[i].shape);
    EXPECT_EQ(bytesOf(read[i].values), bytesOf(written[i].values));
  }
}

TEST_F(SafetensorsTest, RoundTripOfNoTensors) {
  std::vector<NamedTensor> read(1);
  ASSERT_TRUE(writeSafetensors(path, {}, error)) << error;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  EXPECT_TRUE(read.empty());
}

TEST_F(SafetensorsTest, WritesTheDocumentedBytes) {
  ASSERT_TRUE(writeSafetensors(path, {{"w", {2}, {1.f, -2.f}}}, error));
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(bytes, bytesOf<uint64_t>({header.size()}) + header +
                       bytesOf<float>({1.f, -2.f}));
}

TEST_F(SafetensorsTest, ReadsInOrderOfTheDataAndSkipsMetadata) {
  writeParts("{" + entry("a", "F32", "[1]", "[4,8]") +
                 R"(,"__metadata__":{"format":"pt"},)" +
                 entry("b", "F32", "[1,1]", "[0,4]") + "}   ",
             bytesOf<float>({1.f, 2.f}));
  std::vector<NamedTensor> read;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].name, "b");
  EXPECT_EQ(read[0].values, std::vector<float>{1.f});
  EXPECT_EQ(read[1].name, "a");
  EXPECT_EQ(read[1].values, std::vector<float>{2.f});
}

TEST_F(SafetensorsTest, WidensBFloat16) {
  writeParts("{" + entry("x", "BF16", "[4]", "[0,8]") + "}",
             bytesOf<uint16_t>({0x3fc0, 0xc000, 0x0001, 0xff80}));
  std::vector<NamedTensor> read;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  EXPECT_EQ(read.at(0).values,
            (std::vector<float>{1.5f, -2.f, std::ldexp(1.f, -133),
                                -std::numeric_limits<float>::infinity()}));
}

TEST_F(SafetensorsTest, WidensHalf) {
  // 1, -2, largest, least normal, largest and least subnormal, -0, -inf, NaN.
  writeParts("{" + entry("x", "F16", "[9]", "[0,18]") + "}",
             bytesOf<uint16_t>({0x3c00, 0xc000, 0x7bff, 0x0400, 0x03ff, 0x0001,
                                0x8000, 0xfc00, 0x7e00}));
  std::vector<NamedTensor> read;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  std::vector<float> values = read.at(0).values;
  ASSERT_EQ(values.size(), 9u);
  EXPECT_TRUE(std::isnan(values.back()));
  values.pop_back();
  EXPECT_EQ(bytesOf(values),
            bytesOf<float>({1.f, -2.f, 65504.f, std::ldexp(1.f, -14),
                            std::ldexp(1023.f, -24), std::ldexp(1.f, -24), -0.f,
                            -std::numeric_limits<float>::infinity()}));
}

TEST_F(SafetensorsTest, ReadsIntegers) {
  writeParts("{" + entry("narrow", "I32", "[2]", "[0,8]") + "," +
                 entry("wide", "I64", "[1,2]", "[8,24]") + "}",
             bytesOf<int32_t>({-1, 7}) +
                 bytesOf<int64_t>({int64_t(1) << 40, -3}));
  std::vector<NamedIntegers> read;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].name, "narrow");
  EXPECT_EQ(read[0].values, (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(read[1].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(read[1].values, (std::vector<int64_t>{int64_t(1) << 40, -3}));
}

TEST_F(SafetensorsTest, ReadsWhatThePublicLibraryWrites) {
  std::string golden = MOE_GOLDEN_DIR;
  for (const char *variant : {"base", "tied", "starved", "bf16"}) {
    std::string prefix = golden + "/" + variant + "/";
    std::vector<NamedTensor> weights, gradients;
    std::vector<NamedIntegers> tokens;
    ASSERT_TRUE(readSafetensors(prefix + "weights.safetensors", weights, error))
        << error;
    ASSERT_TRUE(
        readSafetensors(prefix + "gradients.safetensors", gradients, error))
        << error;
    ASSERT_TRUE(readSafetensors(prefix + "tokens.safetensors", tokens, error))
        << error;
    std::map<std::string, std::vector<int64_t>> shapes, gradientShapes;
    for (const NamedTensor &tensor : weights)
      shapes[tensor.name] = tensor.shape;
    for (const NamedTensor &tensor : gradients)
      gradientShapes[tensor.name] = tensor.shape;
    EXPECT_EQ(shapes, gradientShapes) << variant;
    EXPECT_EQ(shapes.at("model.embed_tokens.weight").at(0), 64);
    // Norm weights are near 1: the values are not only of the right number.
    for (const NamedTensor &tensor : weights)
      if (tensor.name == "model.norm.weight")
        for (float value : tensor.values)
          EXPECT_NEAR(value, 1.f, 0.8f);
    ASSERT_EQ(tokens.size(), 1u);
    for (int64_t token : tokens[0].values)
      EXPECT_TRUE(token >= 0 && token < 64) << token;
  }
}

TEST_F(SafetensorsTest, RejectsTheOtherKindOfNumber) {
  EXPECT_EQ(headerError("{" + entry("ids", "I64", "[1]", "[0,8]") + "}"),
            "tensor 'ids': is I64, not of real numbers");
  writeParts("{" + entry("w", "F32", "[2]", "[0,8]") + "}", "01234567");
  EXPECT_EQ(readError<NamedIntegers>(), "tensor 'w': is F32, not of integers");
  EXPECT_EQ(headerError("{" + entry("w", "F8_E4M3", "[8]", "[0,8]") + "}"),
            "tensor 'w': dtype F8_E4M3 is not supported");
}

TEST_F(SafetensorsTest, RejectsBadFiles) {
  EXPECT_EQ(readError<NamedTensor>(), "No such file or directory");
  writeBytes("1234567");
  EXPECT_EQ(readError<NamedTensor>(),
            "is too short for the length of a header");
  writeBytes(bytesOf<uint64_t>({3}) + "{}");
  EXPECT_EQ(readError<NamedTensor>(), "the header of 3 bytes exceeds the file");
  writeBytes(bytesOf<uint64_t>({~uint64_t(0)}) + "{}");
  EXPECT_EQ(readError<NamedTensor>(),
            "the header of 18446744073709551615 bytes exceeds the file");
  // A sparse file whose length of a header is true but beyond the limit.
  writeBytes(bytesOf<uint64_t>({200'000'000}));
  std::filesystem::resize_file(path, 200'000'008);
  EXPECT_EQ(readError<NamedTensor>(),
            "the header of 200000000 bytes is too large");
  path = folder;
  EXPECT_EQ(readError<NamedTensor>(), "cannot be read");
}

TEST_F(SafetensorsTest, RejectsBadJson) {
  const char *notJson = "the header is not JSON: ";
  for (const char *header : {"", "{", "{\"a\":}", "{} x", "{\"\xff\":1}"})
    EXPECT_EQ(headerError(header, "").rfind(notJson, 0), 0u) << header;
  EXPECT_EQ(headerError(std::string(100000, '['), "").rfind(notJson, 0), 0u);
  for (const char *header : {"[]", "[{}]", "[{\"dtype\":\"F32\"}]", "3"})
    EXPECT_EQ(headerError(header, ""), "the header is not a JSON object");
}

TEST_F(SafetensorsTest, RejectsBadEntries) {
  EXPECT_EQ(headerError(R"({"w":3})"),
            "tensor 'w': is not described by an object");
  EXPECT_EQ(headerError(R"({"w":{"dtype":"F32","shape":[2]}})"),
            "tensor 'w': has no 'data_offsets'");
  EXPECT_EQ(headerError(R"({"w":{"dtype":1,"shape":[],"data_offsets":[]}})"),
            "tensor 'w': 'dtype' is not a string");
  for (const char *shape : {"2", "[-2]", "[2.0]", "[\"2\"]", "{}", "null"})
    EXPECT_EQ(headerError("{" + entry("w", "F32", shape, "[0,8]") + "}"),
              "tensor 'w': 'shape' is not a list of sizes");
  for (const char *offsets : {"8", "[8]", "[0,4,8]", "[-8,0]", "[0,8.0]"})
    EXPECT_EQ(headerError("{" + entry("w", "F32", "[2]", offsets) + "}"),
              "tensor 'w': 'data_offsets' is not a pair of offsets");
  for (const char *shape :
       {"[4611686018427387904]", "[4294967296,4294967296]",
        "[18446744073709551615]", "[4294967296,4294967296,0]"})
    EXPECT_EQ(headerError("{" + entry("w", "F32", shape, "[0,0]") + "}"),
              "tensor 'w': the shape is too large");
  EXPECT_EQ(headerError("{" + entry("w", "F32", "[3]", "[0,8]") + "}"),
            "tensor 'w': the shape takes 12 bytes, but the offsets are [0, 8)");
  EXPECT_EQ(headerError("{" + entry("w", "F32", "[2]", "[8,0]") + "}"),
            "tensor 'w': the shape takes 8 bytes, but the offsets are [8, 0)");
  EXPECT_EQ(headerError("{" + entry("w", "F32", "[2]", "[0,8]") + "," +
                        entry("w", "F32", "[2]", "[0,8]") + "}"),
            "tensor 'w': occurs twice");
}

TEST_F(SafetensorsTest, RejectsDataThatTheTensorsDoNotTile) {
  auto two = [](const char *first, const char *second) {
    return "{" + entry("a", "F32", "[1]", first) + "," +
           entry("b", "F32", "[1]", second) + "}";
  };
  EXPECT_EQ(headerError(two("[0,4]", "[3,7]")),
            "tensor 'b': overlaps the tensor before it");
  EXPECT_EQ(headerError(two("[0,4]", "[0,4]")),
            "tensor 'b': overlaps the tensor before it");
  EXPECT_EQ(headerError(two("[0,4]", "[5,9]"), "012345678"),
            "tensor 'b': bytes before it belong to no tensor");
  EXPECT_EQ(headerError(two("[0,4]", "[4,8]"), "0123456"),
            "tensor 'b': ends at byte 8 of 7 bytes of data");
  EXPECT_EQ(headerError(two("[0,4]", "[4,8]"), "012345678"),
            "the data has 9 bytes, but the tensors end at byte 8");
  EXPECT_EQ(headerError("{" +
                        entry("w", "F32", "[1]",
                              "[18446744073709551612,18446744073709551616]") +
                        "}"),
            "tensor 'w': 'data_offsets' is not a pair of offsets");
}

TEST_F(SafetensorsTest, WriteRefusesWhatItCannotStore) {
  auto writeError = [&](const std::vector<NamedTensor> &tensors) {
    error.clear();
    EXPECT_FALSE(writeSafetensors(path, tensors, error));
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "partial output";
    return error.substr(std::min(error.size(), path.size() + 2));
  };
  EXPECT_EQ(writeError({{"w", {1}, {1.f}}, {"w", {1}, {1.f}}}),
            "tensor 'w': occurs twice");
  EXPECT_EQ(writeError({{"__metadata__", {1}, {1.f}}}),
            "tensor '__metadata__': the name is reserved");
  EXPECT_EQ(writeError({{"w", {2, 2}, {1.f}}}),
            "tensor 'w': has 1 values, which do not fill its shape");
  EXPECT_EQ(writeError({{"w", {-1, -1}, {1.f}}}),
            "tensor 'w': has 1 values, which do not fill its shape");
  EXPECT_EQ(writeError({{"\xff", {1}, {1.f}}}).rfind("a name cannot", 0), 0u);
}

TEST_F(SafetensorsTest, FailedWriteKeepsWhatWasThere) {
  ASSERT_TRUE(writeSafetensors(path, {{"old", {1}, {1.f}}}, error)) << error;
  EXPECT_FALSE(writeSafetensors(path, {{"new", {2}, {1.f}}}, error));
  std::vector<NamedTensor> read;
  ASSERT_TRUE(readSafetensors(path, read, error)) << error;
  EXPECT_EQ(read.at(0).name, "old");

  EXPECT_FALSE(writeSafetensors(folder / "no/such/folder", {}, error));
  EXPECT_NE(error.find("No such file or directory"), std::string::npos);

  // A folder in the file's place, or a device.
  std::filesystem::create_directories(folder / "place/inhabited");
  EXPECT_FALSE(writeSafetensors(folder / "place", {}, error));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(writeSafetensors(folder / "pipe", {}, error));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  for (const auto &item : std::filesystem::directory_iterator(folder))
    EXPECT_NE(item.path().extension(), ".tmp") << item.path();
}

// One after the other: all names and shapes come first, then each tensor in the
// order of the data; either may end it.
TEST_F(SafetensorsTest, ReadsOneByOne) {
  ASSERT_TRUE(writeSafetensors(
      path, {{"b", {2}, {1, 2}}, {"a", {1, 3}, {3, 4, 5}}}, error));
  std::vector<std::string> seen;
  auto check = [&](const std::vector<NamedTensor> &tensors) {
    for (const NamedTensor &tensor : tensors) {
      EXPECT_TRUE(tensor.values.empty());
      seen.push_back("shape of " + tensor.name);
    }
    return std::string();
  };
  auto take = [&](const NamedTensor &tensor) {
    seen.push_back(tensor.name + std::to_string(tensor.values.size()));
    return std::string();
  };
  ASSERT_TRUE(readSafetensors(path, check, take, error)) << error;
  EXPECT_EQ(seen,
            (std::vector<std::string>{"shape of b", "shape of a", "b2", "a3"}));
  seen.clear();
  EXPECT_FALSE(readSafetensors(
      path, [](const auto &) { return std::string("not these"); }, take,
      error));
  EXPECT_EQ(error, path + ": not these");
  EXPECT_TRUE(seen.empty());
  EXPECT_FALSE(readSafetensors(
      path, check, [](const NamedTensor &t) { return "not " + t.name; },
      error));
  EXPECT_EQ(error, path + ": not b");
}

TEST_F(SafetensorsTest, WritesOneByOne) {
  std::vector<NamedTensor> shapes = {{"b", {2}, {}}, {"a", {3}, {}}};
  std::vector<std::vector<float>> values = {{1, 2}, {3, 4, 5}};
  ASSERT_TRUE(writeSafetensors(
      path, shapes, [&](size_t i) { return values[i]; }, error))
      << error;
  std::vector<NamedTensor> tensors;
  ASSERT_TRUE(readSafetensors(path, tensors, error)) << error;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].values, values[0]);
  EXPECT_EQ(tensors[1].values, values[1]);
  // The file stays what it was, and no other is left.
  values[1].pop_back();
  EXPECT_FALSE(writeSafetensors(
      path, shapes, [&](size_t i) { return values[i]; }, error));
  EXPECT_EQ(error, path + ": tensor 'a': has 2 values, which do not fill its "
                          "shape");
  ASSERT_TRUE(readSafetensors(path, tensors, error)) << error;
  EXPECT_EQ(tensors[1].values.size(), 3u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

} // namespace
