#include "trireme/cli/bench/plot.h"

#include <algorithm>

#include "trireme/cli/bench/sizes.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/processes.h"

namespace trireme::cli::bench {
namespace {

using runtime::Task;

constexpr TimeNs kDraw = 60 * kSecond;
constexpr int kPanelWidth = 640, kPanelHeight = 520;

// Distinct for colour-blind readers (Okabe and Ito, "Color Universal Design", 2008).
constexpr const char* kOurs = "#0072B2";
constexpr const char* kMpi = "#D55E00";
constexpr const char* kGloo = "#009E73";
constexpr const char* kFormulaColours[] = {"#999999", "#CC79A7", "#56B4E9", "#E69F00"};

struct Curve {
  std::string name;   // of the data block
  std::string style;  // of the plot
};

std::string block(const std::string& name, const std::string& lines) {
  return fmt::format("${} << EOD\n{}EOD\n", name, lines);
}

void add_measured(const std::vector<const measure::BenchRow*>& rows, const char* name, const char* title,
                  const char* colour, const measure::Timing* (*timing)(const measure::BenchRow&),
                  std::string& data, std::vector<Curve>& curves, int world) {
  std::string lines;
  for (const measure::BenchRow* row : rows)
    if (const measure::Timing* t = timing(*row))
      lines += fmt::format("{} {:.6g} {:.6g} {:.6g}\n", row->bytes, t->median_us, t->low_us, t->high_us);
  if (lines.empty()) return;
  const std::string id = fmt::format("{}_{}", name, world);
  data += block(id, lines);
  curves.push_back({id, fmt::format("using 1:2:3:4 with yerrorlines lw 2 pt 7 ps 0.6 lc rgb '{}' title '{}'",
                                    colour, title)});
}

// Closed forms at every half octave between the smallest and the largest size.
void add_formulas(const std::vector<const measure::BenchRow*>& rows, const measure::Models& models,
                  std::string& data, std::vector<Curve>& curves, int world) {
  const double first = static_cast<double>(rows.front()->bytes),
               last = static_cast<double>(rows.back()->bytes);
  const double latency = measure::latency_us(models), per_byte = measure::us_per_byte(models);
  std::size_t colour = 0;
  for (const measure::ClosedForm& f : measure::formulas_of(rows.front()->kind)) {
    std::string lines;
    for (double m = first; m <= last * 1.001; m *= 1.4142135623730951)
      lines += fmt::format("{:.6g} {:.6g}\n", m, f.microseconds(latency, per_byte, world, m));
    const std::string id = fmt::format("formula{}_{}", colour, world);
    data += block(id, lines);
    curves.push_back({id, fmt::format("using 1:2 with lines lw 1 dt 2 lc rgb '{}' title '{} (formula)'",
                                      kFormulaColours[colour % std::size(kFormulaColours)], f.name)});
    ++colour;
  }
  std::string predicted, bound;
  for (const measure::BenchRow* row : rows) {
    predicted += fmt::format("{} {:.6g}\n", row->bytes, row->predicted_us);
    bound += fmt::format("{} {:.6g}\n", row->bytes, row->bound_us);
  }
  data += block(fmt::format("predicted_{}", world), predicted) + block(fmt::format("bound_{}", world), bound);
  curves.push_back(
      {fmt::format("predicted_{}", world),
       fmt::format("using 1:2 with lines lw 1.5 dt 3 lc rgb '{}' title 'ours, predicted'", kOurs)});
  curves.push_back(
      {fmt::format("bound_{}", world), "using 1:2 with lines lw 2 lc rgb 'black' title 'lower bound'"});
}

std::string escape(std::string text) {
  for (std::size_t at = text.find('\''); at != std::string::npos; at = text.find('\'', at + 2))
    text.insert(at, "'");  // gnuplot doubles a quote inside quotes
  return text;
}

}  // namespace

Status check_plot_path(const std::string& path) {
  if (path.ends_with(".svg") || path.ends_with(".png")) return {};
  return error(Code::kInvalid, "[bench] a plot is .svg or .png: got '{}'", path);
}

std::string plot_script(const measure::Report& report, const measure::BenchOptions& o,
                        const std::string& path) {
  const int panels = static_cast<int>(o.worlds.size());
  const int columns = std::min(panels, 3), lines = (panels + columns - 1) / columns;
  std::string data, plots;
  for (const int world : o.worlds) {
    std::vector<const measure::BenchRow*> rows;
    for (const measure::BenchRow& row : report.rows)
      if (row.world == world) rows.push_back(&row);
    if (rows.empty()) continue;
    std::vector<Curve> curves;
    const auto ours = [](const measure::BenchRow& r) { return &r.ours; };
    const auto mpi = [](const measure::BenchRow& r) { return r.mpi ? &*r.mpi : nullptr; };
    const auto gloo = [](const measure::BenchRow& r) { return r.gloo ? &*r.gloo : nullptr; };
    add_formulas(rows, o.models(world), data, curves, world);
    add_measured(rows, "gloo", "Gloo", kGloo, gloo, data, curves, world);
    add_measured(rows, "mpi", "Open MPI", kMpi, mpi, data, curves, world);
    add_measured(rows, "ours", "ours", kOurs, ours, data, curves, world);
    plots +=
        fmt::format("set title '{} over {}, {} ranks{}' noenhanced\nplot ", collective::kind_name(o.kind),
                    escape(o.own.transport), world, rows[0]->oversubscribed ? " (more than cores)" : "");
    for (std::size_t i = 0; i < curves.size(); ++i)
      plots += fmt::format("{}${} {}", i == 0 ? "" : ", \\\n  ", curves[i].name, curves[i].style);
    plots += "\n";
  }
  const char* terminal = path.ends_with(".svg") ? "svg dynamic background '#ffffff'" : "pngcairo";
  return fmt::format(
      "set terminal {} size {},{} font 'sans,11'\nset output '{}'\nset logscale xy\nset logscale x 2\n"
      "set format x '%.0b %BB'\nset format y '%g'\nset xlabel 'bytes'\nset ylabel 'time per call (us)'\n"
      "set grid lc rgb '#dddddd'\nset key top left font ',9'\n{}set multiplot layout {},{}\n{}unset "
      "multiplot\n",
      terminal, kPanelWidth * columns, kPanelHeight * lines, escape(path), data, lines, columns, plots);
}

Task<Status> draw_plot(runtime::Runtime& rt, std::string script, std::string dir, std::string path) {
  const std::string file = dir + "/plot.gp", log = dir + "/plot.log";
  TR_CO_RETURN_IF_ERROR(co_await rt.files().write(file, as_bytes(script)));
  runtime::ProcessSpec spec;
  spec.argv = {"gnuplot", file};
  spec.stdout_path = spec.stderr_path = log;
  auto process = rt.processes().spawn(std::move(spec));
  if (!process.ok())
    co_return error(Code::kNotFound, "[bench] cannot draw '{}': {}; install gnuplot-nox", path,
                    process.status().message());
  Result<runtime::ExitStatus> ended = co_await (*process)->wait(rt.now() + kDraw);
  if (!ended.ok()) co_return ended.status();
  if (ended->ok()) co_return Status();
  Result<Bytes> said = co_await rt.files().read(log);
  co_return error(Code::kUnavailable, "[bench] gnuplot failed to draw '{}': {}", path,
                  said.ok() ? std::string(as_text(*said)) : std::string("it said nothing"));
}

}  // namespace trireme::cli::bench
