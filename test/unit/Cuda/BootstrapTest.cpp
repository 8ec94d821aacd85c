// Which rank a process is, by what launchers say, and the first contact.

#include "lib/Runtime/Cuda/Bootstrap.h"
#include "gtest/gtest.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <future>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace moert::cuda;

namespace {

class BootstrapTest : public ::testing::Test {
protected:
  BootstrapTest() {
    for (const char *name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK",
          "PMI_SIZE", "MPI_LOCALRANKID", "SLURM_PROCID", "SLURM_NTASKS",
          "SLURM_LOCALID", "MASTER_ADDR", "MASTER_PORT", "MOE_RT_PORT",
          "MOE_RT_TIMEOUT"})
      unsetenv(name);
  }

  void set(const std::string &name, const std::string &value) {
    setenv(name.c_str(), value.c_str(), 1);
  }

  /// A port that nobody listens at.
  static int freePort() {
    int handle = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(handle, reinterpret_cast<sockaddr *>(&address), size), 0);
    getsockname(handle, reinterpret_cast<sockaddr *>(&address), &size);
    close(handle);
    return ntohs(address.sin_port);
  }

  std::string readError() {
    World world;
    std::string error;
    EXPECT_FALSE(readWorld(world, error));
    return error;
  }
};

TEST_F(BootstrapTest, Alone) {
  World world{7, 8, 9};
  std::string error;
  ASSERT_TRUE(readWorld(world, error)) << error;
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.localRank, -1);
}

TEST_F(BootstrapTest, Launchers) {
  const char *launchers[][3] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
  for (auto &names : launchers) {
    set(names[0], "5");
    set(names[1], "16");
    set(names[2], "1");
    World world;
    std::string error;
    ASSERT_TRUE(readWorld(world, error)) << error;
    EXPECT_EQ(world.rank, 5);
    EXPECT_EQ(world.size, 16);
    EXPECT_EQ(world.localRank, 1);
    for (const char *name : names)
      unsetenv(name);
  }
}

TEST_F(BootstrapTest, NotANumber) {
  set("RANK", "two");
  EXPECT_EQ(readError(), "RANK='two' is not a number from 0");
  set("RANK", "-1");
  EXPECT_EQ(readError(), "RANK='-1' is not a number from 0");
  set("RANK", "4");
  set("WORLD_SIZE", "4");
  EXPECT_EQ(readError(), "RANK=4 is not below WORLD_SIZE=4");
}

TEST_F(BootstrapTest, SharesWhatRankZeroHas) {
  set("MOE_RT_PORT", std::to_string(freePort()));
  set("MOE_RT_TIMEOUT", "20");
  std::vector<std::future<std::string>> ranks;
  // The first comes last: the others try again until it is there.
  for (int rank = 3; rank >= 0; --rank) {
    ranks.push_back(std::async(std::launch::async, [rank] {
      char data[8] = "nothing";
      if (rank == 0)
        std::snprintf(data, sizeof data, "shared!");
      std::string error;
      shareFromRoot({rank, 4, rank}, 42, data, sizeof data, error);
      return error.empty() ? data : error;
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (auto &rank : ranks)
    EXPECT_EQ(rank.get(), "shared!");
}

TEST_F(BootstrapTest, AnotherProgram) {
  set("MOE_RT_PORT", std::to_string(freePort()));
  set("MOE_RT_TIMEOUT", "20");
  auto other = std::async(std::launch::async, [] {
    char data = 0;
    std::string error;
    EXPECT_FALSE(shareFromRoot({1, 2, 1}, 43, &data, 1, error));
    return error;
  });
  char data = 1;
  std::string error;
  EXPECT_FALSE(shareFromRoot({0, 2, 0}, 42, &data, 1, error));
  EXPECT_EQ(error, "rank 1 runs another program or job size");
  EXPECT_EQ(other.get(), error);
}

TEST_F(BootstrapTest, NobodyComes) {
  int port = freePort();
  set("MOE_RT_PORT", std::to_string(port));
  set("MOE_RT_TIMEOUT", "1");
  char data = 1;
  std::string error, where = std::to_string(port);
  EXPECT_FALSE(shareFromRoot({0, 3, 0}, 42, &data, 1, error));
  EXPECT_EQ(error,
            "only 1 of 3 ranks came to port " + where + " within 1 seconds");
  EXPECT_FALSE(shareFromRoot({1, 3, 0}, 42, &data, 1, error));
  EXPECT_EQ(error, "rank 0 does not answer at 127.0.0.1:" + where +
                       " within 1 seconds (MASTER_ADDR, MOE_RT_PORT)");
}

TEST_F(BootstrapTest, WrongPlace) {
  set("MOE_RT_PORT", "70000");
  char data = 1;
  std::string error;
  EXPECT_FALSE(shareFromRoot({1, 3, 0}, 42, &data, 1, error));
  EXPECT_EQ(error, "port 70000 of rank 0 is out of range");
  for (const char *seconds : {"0", "9223372036854775807"}) {
    set("MOE_RT_TIMEOUT", seconds);
    EXPECT_FALSE(shareFromRoot({1, 3, 0}, 42, &data, 1, error));
    EXPECT_EQ(error, "MOE_RT_TIMEOUT='" + std::string(seconds) +
                         "' is not a number of seconds from 1 to 1000000");
  }
  unsetenv("MOE_RT_TIMEOUT");
  set("MOE_RT_PORT", "29999");
  set("MASTER_ADDR", "no such machine");
  EXPECT_FALSE(shareFromRoot({1, 3, 0}, 42, &data, 1, error));
  EXPECT_EQ(error.rfind("MASTER_ADDR 'no such machine': ", 0), 0u) << error;
}

} // namespace
