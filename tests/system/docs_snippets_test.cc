// The commands of the documents work: every indented line that begins with ./run or trireme is run as it
// stands on its page, with less data and fewer ranks. A block that is not run says why, in a line before it:
// <!-- not run: the reason -->. Pages whose commands other tests run are listed with these tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/system/binary.h"
#include "trireme/graph/serialize.h"

namespace trireme::system_test {
namespace {

namespace fs = std::filesystem;

fs::path root() {
  const char* dir = std::getenv("TRIREME_SOURCE_DIR");
  return fs::absolute(dir != nullptr ? dir : ".");
}

std::string read_page(const std::string& page) {
  std::ifstream in(root() / page);
  return {std::istreambuf_iterator<char>(in), {}};
}

// An indented block of a page.
struct Block {
  std::vector<std::string> lines;  // without the indentation
  std::string reason;              // why it is not run; empty: it is
};

std::string reason_of(const std::string& line) {
  static const std::regex kMark("^<!-- not run: (.+) -->$");
  std::smatch found;
  return std::regex_match(line, found, kMark) ? found[1].str() : "";
}

// Blocks that follow a blank line, a heading or a mark; what is between ``` is none.
std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream lines(read_page(page));
  std::string before, reason;
  bool fenced = false, open = false;
  for (std::string line; std::getline(lines, line); before = line) {
    const bool fence = line.find("```") == line.find_first_not_of(' ') && !line.empty();
    if (fence) fenced = !fenced;
    const bool starts = before.empty() || before.starts_with("#") || !reason_of(before).empty();
    const bool code = !fenced && !fence && line.starts_with("    ") && (open || starts);
    if (!reason_of(line).empty()) reason = reason_of(line);
    if (code && !open) blocks.push_back({{}, reason});
    if (code) blocks.back().lines.push_back(line.substr(4));
    open = code;
    if (!code && !line.empty() && reason_of(line).empty()) reason.clear();
  }
  return blocks;
}

// The command of a line without ./run or trireme; empty where there is none, or where it is the script's own.
std::string command_of(const std::string& line) {
  for (const char* own :
       {"./run test", "./run docs", "./run bundle"})  // tests/tools/run_test.sh, docs_test.sh
    if (line.starts_with(own)) return "";
  for (const std::string program : {"./run ", "trireme "})
    if (line.starts_with(program)) return line.substr(program.size());
  return "";
}

std::vector<std::string> commands_of(const std::string& page) {
  std::vector<std::string> found;
  for (const Block& block : blocks_of(page))
    for (const std::string& line : block.lines)
      if (block.reason.empty() && !command_of(line).empty()) found.push_back(command_of(line));
  return found;
}

// Whose commands a test of its own runs.
const std::map<std::string, std::string> kRunElsewhere = {
    {"docs/quick_start.md", "tests/system/quick_start_test.cc"},
    {"docs/how_to_predict.md", "tests/system/predict_test.cc"},
    {"docs/how_to_inspect.md", "tests/system/inspect_test.cc"},
    {"docs/how_to_checkpoints.md", "tests/io/command_test.py"},
    {"docs/how_to_same_bits.md", "below: SameBits"},
};

std::vector<std::string> all_pages() {
  std::vector<std::string> pages{"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root() / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(fs::relative(entry.path(), root()));
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::vector<std::string> pages_to_run() {
  std::vector<std::string> pages;
  for (const std::string& page : all_pages())
    if (!kRunElsewhere.contains(page) && !commands_of(page).empty()) pages.push_back(page);
  return pages;
}

// Small files under the names that the pages use: MNIST's, a table, images in folders, arrays, a text.
constexpr const char* kMakeData = R"(
import os, random, struct, zipfile, zlib
draw = random.Random(1)
os.makedirs('data/mnist')
for part, n in (('train', 64), ('t10k', 20)):
    with open(f'data/mnist/{part}-images-idx3-ubyte', 'wb') as f:
        f.write(struct.pack('>IIII', 2051, n, 28, 28) + draw.randbytes(784 * n))
    with open(f'data/mnist/{part}-labels-idx1-ubyte', 'wb') as f:
        f.write(struct.pack('>II', 2049, n) + bytes(i % 10 for i in range(n)))
with open('flowers.csv', 'w') as f:
    f.write('length,width,kind\n')
    f.writelines(f'{1.4 + 3 * (i % 2) + i / 90},{0.2 + i % 2},{("setosa", "versicolor")[i % 2]}\n' for i in range(40))
def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
for kind in ('cat', 'dog'):
    os.makedirs(f'pets/{kind}')
    for i in range(8):
        rows = b''.join(b'\0' + draw.randbytes(3 * 70) for _ in range(66))
        with open(f'pets/{kind}/{i}.png', 'wb') as f:
            f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 70, 66, 8, 2, 0, 0, 0)) +
                    chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
def array(kind, shape, data):
    head = str({'descr': kind, 'fortran_order': False, 'shape': shape}).encode()
    head += b' ' * (-(len(head) + 11) % 64) + b'\n'
    return b'\x93NUMPY\x01\0' + struct.pack('<H', len(head)) + head + data
with zipfile.ZipFile('set.npz', 'w') as f:
    for part, n in (('train', 40), ('test', 10)):
        f.writestr(f'x_{part}.npy', array('<f4', (n, 4), struct.pack(f'<{4 * n}f', *(draw.random() for _ in range(4 * n)))))
        f.writestr(f'y_{part}.npy', array('<i8', (n,), struct.pack(f'<{n}q', *(i % 2 for i in range(n)))))
with open('shakespeare.txt', 'w') as f:
    f.write('to be, or not to be: that is the question.\n' * 800)
os.symlink('../shakespeare.txt', 'data/shakespeare.txt')
)";

constexpr const char* kJob = R"(name = "job"
[model]
name = "mlp"
[data]
limit_train = 96
limit_test = 20
[train]
batch = 48
steps = 2
)";

void prepare(const Workspace& w) {
  w.write("make.py", kMakeData);
  const Ran made = w.run_program({"python3", "make.py"});
  ASSERT_EQ(made.code, 0) << made.err;
  w.write("JOB.toml", kJob);
  w.write("own.toml", kJob);
  fs::create_directory_symlink(root() / "recipes", w / "recipes");
}

// Fewer ranks of a virtual cluster, so that a page takes seconds.
std::string with_fewer_ranks(std::string command) {
  static const std::regex kRanks("--ranks (\\d+)");
  std::smatch found;
  if (std::regex_search(command, found, kRanks) && std::stoi(found[1]) > 32)
    command = found.prefix().str() + "--ranks 32" + found.suffix().str();
  return command;
}

// The comment of a line ends before what is added.
std::string without_comment(const std::string& command) {
  const std::size_t at = command.find(" # ");
  return at == std::string::npos ? command : command.substr(0, at);
}

std::string smaller(const std::string& given) {
  std::string command = with_fewer_ranks(without_comment(given));
  const std::vector<std::pair<std::string, std::string>> less = {
      {"train", " --quiet --set train.steps=2 train.batch=24 data.limit_train=48 data.limit_test=20"},
      {"calibrate", " --quick --transport shm"},
      {"bench codec", " --sizes 64KB --repeats 1"},
      {"bench server", " --repeats 1 --seconds 0.1"},
  };
  for (const auto& [start, more] : less)
    if (command.starts_with(start)) return command + more;
  return command;
}

Ran run_line(const Workspace& w, const std::string& command) {
  // By a shell, which takes the quotes off as it does for users.
  return w.run_program(
      {"/bin/sh", "-c",
       "export XDG_STATE_HOME=\"$PWD/state\"; trireme() { \"$0\" \"$@\"; }; trireme " + command,
       binary_path()});
}

class DocsPage : public ::testing::TestWithParam<std::string> {};

TEST_P(DocsPage, EveryCommandWorksInTheOrderOfThePage) {
  const Workspace w;
  prepare(w);
  for (const std::string& command : commands_of(GetParam())) {
    const Ran ran = run_line(w, smaller(command));
    EXPECT_EQ(ran.code, 0) << GetParam() << ": " << smaller(command) << "\n" << ran.err;
    EXPECT_NE(ran.out, "") << GetParam() << ": " << smaller(command);
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& page) {
  std::string name = fs::path(page.param).replace_extension().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Docs, DocsPage, ::testing::ValuesIn(pages_to_run()), test_name);

TEST(DocsSnippets, BlocksOutsideOfTheListAreRunOrSayWhyNot) {
  for (const auto& [page, test] : kRunElsewhere) {
    EXPECT_FALSE(commands_of(page).empty()) << page << " has no command; take it off the list";
    EXPECT_TRUE(test.starts_with("below") || fs::exists(root() / test)) << test;
  }
  EXPECT_GE(pages_to_run().size(), 12U);
}

// Commands within the text: `./run ...`, as in the tables of features. What needs a GPU or other programs is
// left out.
std::vector<std::string> spans_of(const std::string& page) {
  static const std::regex kSpan("`([^`]+)`");
  static const std::regex kFence("```[^`]*```");
  const std::string text = std::regex_replace(read_page(page), kFence, "");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), kSpan); at != std::sregex_iterator(); ++at) {
    const std::string command = command_of((*at)[1].str());
    const bool foreign =
        command.find("cuda") != std::string::npos || command.find("--against") != std::string::npos;
    if (!command.empty() && !foreign && std::find(found.begin(), found.end(), command) == found.end())
      found.push_back(command);
  }
  return found;
}

TEST(DocsSnippets, TheTablesOfFeaturesShowWhatTheySay) {
  const Workspace w;
  prepare(w);
  fs::copy_file(w / "flowers.csv", w / "my.csv");
  ASSERT_EQ(run_line(w, smaller("train")).code, 0);  // runs/digits-1, which other commands look at
  for (const char* page : {"README.md", "docs/features.md"}) {
    const std::vector<std::string> commands = spans_of(page);
    EXPECT_GE(commands.size(), 6U) << page;
    for (const std::string& command : commands) {
      const Ran ran = run_line(w, smaller(command));
      EXPECT_EQ(ran.code, 0) << page << ": " << smaller(command) << "\n" << ran.err;
    }
  }
}

// Fences in a language: a test takes each, or the line before says why not, or of which file it is
// (tools/check_docs holds it to that).
const std::map<std::string, std::string> kTestedFences = {
    {"docs/quick_start.md", "toml csv"},               // tests/system/quick_start_test.cc
    {"docs/how_to_own_model.md", "cpp json toml"},     // tests/model/docs_test.cc, and below
    {"docs/how_to_use_as_a_library.md", "cmake cpp"},  // tests/install
    {"docs/format_graph.md", "json"},                  // below
};

TEST(DocsSnippets, EveryFenceIsTestedOrSaysWhyNot) {
  for (const std::string& page : all_pages()) {
    std::istringstream lines(read_page(page));
    std::string before;
    for (std::string line; std::getline(lines, line); before = line) {
      const std::size_t at = line.find("```");
      if (at == std::string::npos || at != line.find_first_not_of(' ') || at + 3 == line.size()) continue;
      const std::string language = line.substr(at + 3);
      const auto tested = kTestedFences.find(page);
      const bool known = tested != kTestedFences.end() && tested->second.find(language) != std::string::npos;
      const bool is_file = before.starts_with("<!-- file: ") || before.starts_with("<!-- part of: ");
      EXPECT_TRUE(known || is_file || !reason_of(before).empty())
          << page << ": a fence of " << language << " that no test takes";
    }
  }
}

// A mark belongs to a block: one that marks nothing was left behind.
TEST(DocsSnippets, EveryMarkIsBeforeASnippet) {
  for (const std::string& page : all_pages()) {
    std::istringstream lines(read_page(page));
    std::string mark;
    for (std::string line; std::getline(lines, line);) {
      if (!mark.empty() && !line.empty()) {
        EXPECT_TRUE(line.starts_with("    ") || line.starts_with("```")) << page << ": " << mark;
        mark.clear();
      }
      if (!reason_of(line).empty()) mark = line;
    }
  }
}

std::string all_lines(const Block& block) {
  std::string text;
  for (const std::string& line : block.lines) text += line + "\n";
  return text;
}

TEST(DocsSnippets, SameBitsAreTheSameAsThePageSays) {
  const std::vector<Block> blocks = blocks_of("docs/how_to_same_bits.md");
  ASSERT_FALSE(blocks.empty());
  const Workspace w;
  const Ran ran = w.run_program(
      {"/bin/sh", "-c", "trireme() { \"$0\" \"$@\"; }\n" + all_lines(blocks[0]), binary_path()});
  static const std::regex kHash("parameters_sha256[\": ]+([0-9a-f]{64})");
  std::vector<std::string> hashes;
  for (std::sregex_iterator at(ran.out.begin(), ran.out.end(), kHash); at != std::sregex_iterator(); ++at)
    hashes.push_back((*at)[1].str());
  ASSERT_EQ(hashes.size(), 3U) << ran.out << ran.err;
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST(DocsSnippets, TheFaultEndsAsThePageShows) {
  const std::vector<Block> bits = blocks_of("docs/how_to_same_bits.md"),
                           faults = blocks_of("docs/how_to_faults.md");
  ASSERT_FALSE(bits.empty() || faults.empty());
  const std::string& line = faults[0].lines[0];
  ASSERT_TRUE(line.starts_with("$ trireme train $S ")) << line;
  const Workspace w;
  const Ran ran =
      w.run_program({"/bin/sh", "-c", bits[0].lines[0] + "\ntrireme() { \"$0\" \"$@\"; }\n" + line.substr(2),
                     binary_path()});
  EXPECT_EQ(ran.code, 1);
  const std::string shown = all_lines(faults[0]);
  // A rank that still computes when its peer dies names no operation.
  for (const char* says : {"rank 1: died by signal 9", "rank 1 was lost in "}) {
    EXPECT_NE(shown.find(says), std::string::npos) << shown;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  }
}

// What stands between ```<language> and ```.
std::string fence_of(const std::string& page, const std::string& language) {
  const std::string text = read_page(page), opening = "```" + language + "\n";
  const std::size_t begin = text.find(opening);
  if (begin == std::string::npos) return "";
  const std::size_t from = begin + opening.size();
  return text.substr(from, text.find("```", from) - from);
}

TEST(DocsSnippets, TheGraphInJsonReads) {
  const auto graph = graph::parse_graph_json(fence_of("docs/format_graph.md", "json"));
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
}

TEST(DocsSnippets, TheModelByLayersBuildsAndItsMistakeIsToldAsThePageSays) {
  const std::string page = "docs/how_to_own_model.md";
  std::string toml = fence_of(page, "toml");
  const Workspace w;
  w.write("own.toml", toml);
  const Ran good = w.run({"inspect", "model", "own.toml"});
  EXPECT_EQ(good.code, 0) << good.err;
  const std::string said = "layer 0 (conv2d): unknown attribute 'paddng'";
  EXPECT_NE(read_page(page).find("`" + said + "`"), std::string::npos);
  const std::size_t at = toml.find("padding = 2");
  ASSERT_NE(at, std::string::npos);
  w.write("own.toml", toml.replace(at, 7, "paddng"));
  const Ran bad = w.run({"inspect", "model", "own.toml"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find(said), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace trireme::system_test
