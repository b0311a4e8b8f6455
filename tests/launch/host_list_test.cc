#include "trireme/launch/host_list.h"

#include <gtest/gtest.h>

#include "trireme/base/rng.h"

namespace trireme::launch {
namespace {

TEST(ParseHosts, ReadsNamesSlotsAndComments) {
  const auto hosts = parse_hosts(
      "# the rack\nnode1 slots=4\n\n  me@node2\t# one rank\r\n10.0.0.7   slots=2\n[::1]", "hosts.txt");
  ASSERT_TRUE(hosts.ok()) << hosts.status().to_string();
  ASSERT_EQ(hosts->size(), 4U);
  EXPECT_EQ((*hosts)[0].name, "node1");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].name, "me@node2");
  EXPECT_EQ((*hosts)[1].slots, 1);
  EXPECT_EQ((*hosts)[2].slots, 2);
  EXPECT_EQ((*hosts)[3].name, "[::1]");
  EXPECT_EQ(num_slots(*hosts), 8);
}

TEST(ParseHosts, SaysWhichLineMakesNoSense) {
  const struct {
    const char* text;
    const char* said;
  } cases[] = {
      {"", "h: [launch] no hosts; expected lines like: node1 slots=4"},
      {"# nothing\n\n", "h: [launch] no hosts"},
      {"a\nb slots=0\n", "h:2: [launch] got 'slots=0' after host 'b', expected slots=N with N from 1"},
      {"a slots=65537", "h:1: [launch] got 'slots=65537'"},
      {"a slots=2x", "h:1: [launch] got 'slots=2x'"},
      {"a slots=", "h:1: [launch] got 'slots='"},
      {"a slots=99999999999999999999", "h:1: [launch] got 'slots=9999"},
      {"a 4", "h:1: [launch] got '4' after host 'a'"},
      {"a slots=2 slots=3", "h:1: [launch] got 'slots=3' after host 'a'"},
      {"-oProxyCommand=x", "h:1: [launch] got '-oProxyCommand=x', expected the name or address of a host"},
      {"a;reboot", "h:1: [launch] got 'a;reboot'"},
      {"a\x01", "h:1: [launch] got 'a?'"},
      {"a\nb\na slots=2", "h:3: [launch] host 'a' is there already; give it more slots instead"},
      {"a slots=65536\nb", "h:2: [launch] more than 65536 slots in all"},
  };
  for (const auto& c : cases) {
    const auto hosts = parse_hosts(c.text, "h");
    EXPECT_EQ(hosts.status().code(), Code::kInvalid) << c.text;
    EXPECT_NE(hosts.status().message().find(c.said), std::string::npos) << hosts.status().message();
  }
}

TEST(ParseHosts, AnyBytesGiveHostsThatCanBeWrittenAndReadOrAReason) {
  const std::vector<std::string> pieces{"a",     "node1", " ", "\t", "\n",   "\r\n",  "#",  "slots=",     "4",
                                        "65536", "-",     "@", "=",  "\xff", "[::1]", "\0", "99999999999"};
  int read = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Philox rng(seed, 0);
    std::string text;
    for (std::uint32_t n = rng.next_below(12); n > 0; --n)
      text += pieces[rng.next_below(static_cast<std::uint32_t>(pieces.size()))];
    const auto hosts = parse_hosts(text, "h");
    if (!hosts.ok()) {
      ++refused;
      EXPECT_TRUE(hosts.status().message().starts_with("h:")) << hosts.status().message();
      continue;
    }
    ++read;
    std::string written;
    for (const Host& h : *hosts) written += fmt::format("{} slots={}\n", h.name, h.slots);
    const auto again = parse_hosts(written, "again");
    ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << again.status().to_string();
    EXPECT_EQ(num_slots(*again), num_slots(*hosts)) << "seed " << seed;
    EXPECT_EQ(again->size(), hosts->size()) << "seed " << seed;
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

TEST(PlaceRanks, FillsOneHostAfterTheOther) {
  const std::vector<Host> hosts{{"a", 2}, {"b", 1}, {"c", 3}};
  EXPECT_EQ(*place_ranks(hosts, 5), (std::vector<int>{0, 0, 1, 2, 2}));
  EXPECT_EQ(*place_ranks(hosts, 1), (std::vector<int>{0}));
  const auto many = place_ranks(hosts, 7);
  EXPECT_EQ(many.status().code(), Code::kInvalid);
  EXPECT_NE(many.status().message().find("7 ranks need 7 slots, and 3 hosts have 6"), std::string::npos)
      << many.status().message();
}

TEST(Hosts, AddressesHaveNoUserAndLoopbackIsKnown) {
  EXPECT_EQ(address_of({"me@node2", 1}), "node2");
  EXPECT_EQ(address_of({"node2", 1}), "node2");
  for (const char* name : {"localhost", "127.0.0.1", "127.3.2.1", "::1"})
    EXPECT_TRUE(is_loopback(name)) << name;
  for (const char* name : {"node1", "10.0.0.1", "128.0.0.1"}) EXPECT_FALSE(is_loopback(name)) << name;
}

}  // namespace
}  // namespace trireme::launch
