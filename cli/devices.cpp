// braze devices: what is here and what was found, and why not.
#include <algorithm>
#include <memory>

#include "braze/braze.hpp"
#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

std::string text_of(const std::vector<DeviceReport>& reports) {
  std::size_t width = 0;
  for (const DeviceReport& report : reports) width = std::max(width, report.name.size());
  std::string text;
  for (const DeviceReport& report : reports) {
    text += fmt::format("{:<{}}  {:<3}  {}\n", report.name, width, report.usable ? "yes" : "no",
                        printable(report.detail));
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<DeviceReport>& reports) {
  auto list = nlohmann::ordered_json::array();
  for (const DeviceReport& report : reports)
    list.push_back({{"name", report.name}, {"usable", report.usable}, {"detail", report.detail}});
  return {{"devices", list}};
}

}  // namespace

void add_devices(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "What is here and was found, and why not");
  command->add_flag("--json", *json, "Print JSON instead of text");
  command->callback([json, &action] {
    action = [json] {
      const std::vector<DeviceReport> reports = devices();
      print_out(*json ? json_text(json_of(reports)) : text_of(reports));
    };
  });
}

}  // namespace braze::cli
