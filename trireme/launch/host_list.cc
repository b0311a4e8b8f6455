#include "trireme/launch/host_list.h"

#include <algorithm>
#include <charconv>

namespace trireme::launch {
namespace {

constexpr int kMostSlots = 65536;
constexpr std::size_t kMostShown = 64;  // characters of a bad word in a message

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  for (std::size_t at = 0; at < line.size();) {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < line.size() && !is_blank(line[end])) ++end;
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// A name that begins with "-" would be an option of ssh.
bool is_name(std::string_view word) {
  return word.size() <= 255 && word[0] != '-' && std::all_of(word.begin(), word.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  std::string_view(".-_@:[]%").find(c) != std::string_view::npos;
         });
}

std::string shown(std::string_view word) {
  std::string text;
  for (const char c : word.substr(0, kMostShown)) text += c >= ' ' && c < '\x7f' ? c : '?';
  return word.size() > kMostShown ? text + "..." : text;
}

Result<Host> parse_line(const std::vector<std::string_view>& words) {
  Host host;
  if (!is_name(words[0]))
    return error(Code::kInvalid, "[launch] got '{}', expected the name or address of a host",
                 shown(words[0]));
  host.name = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    constexpr std::string_view kSlots = "slots=";
    const std::string_view number = words[i].substr(std::min(kSlots.size(), words[i].size()));
    const auto [at, failure] = std::from_chars(number.data(), number.data() + number.size(), host.slots);
    const bool whole = failure == std::errc() && at == number.data() + number.size();
    if (i > 1 || !words[i].starts_with(kSlots) || !whole || host.slots < 1 || host.slots > kMostSlots)
      return error(Code::kInvalid, "[launch] got '{}' after host '{}', expected slots=N with N from 1 to {}",
                   shown(words[i]), host.name, kMostSlots);
  }
  return host;
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::string_view text, std::string_view source) {
  std::vector<Host> hosts;
  int line_number = 0, slots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(at, end - at));
    at = end + 1;
    ++line_number;
    if (words.empty()) continue;
    const std::string place = fmt::format("{}:{}: ", source, line_number);
    Result<Host> host = parse_line(words);
    if (!host.ok()) return host.status().with_prefix(place);
    if (std::any_of(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == host->name; }))
      return error(Code::kInvalid, "{}[launch] host '{}' is there already; give it more slots instead", place,
                   host->name);
    slots += host->slots;
    if (slots > kMostSlots)
      return error(Code::kInvalid, "{}[launch] more than {} slots in all", place, kMostSlots);
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty())
    return error(Code::kInvalid, "{}: [launch] no hosts; expected lines like: node1 slots=4", source);
  return hosts;
}

int num_slots(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& h : hosts) slots += h.slots;
  return slots;
}

Result<std::vector<int>> place_ranks(const std::vector<Host>& hosts, int world) {
  if (world > num_slots(hosts))
    return error(
        Code::kInvalid,
        "[launch] {} ranks need {} slots, and {} hosts have {}; add hosts or slots=N, or start fewer", world,
        world, hosts.size(), num_slots(hosts));
  std::vector<int> place;
  for (std::size_t h = 0; h < hosts.size(); ++h)
    for (int s = 0; s < hosts[h].slots && static_cast<int>(place.size()) < world; ++s)
      place.push_back(static_cast<int>(h));
  return place;
}

std::string address_of(const Host& host) { return host.name.substr(host.name.find('@') + 1); }

bool is_loopback(std::string_view address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1" || address == "[::1]";
}

}  // namespace trireme::launch
