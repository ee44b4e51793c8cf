#include "passes/pipeline.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <new>
#include <optional>

#include "base/error.hpp"
#include "graph/verify.hpp"
#include "passes/edit.hpp"
#include "passes/promote_half.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct Pass {
  std::string_view name;
  int (*run)(Graph&);
};

// The table of contents. What a model spells out is recomposed before its constants are folded away
// into weights.
constexpr Pass kPasses[] = {
    {"fold_constants", fold_constants},
    {"fold_identity", fold_identity},
    {"select_branch", select_branch},
    {"drop_expand", drop_expand},

    {"constants_right", constants_right},
    {"sub_to_add", sub_to_add},
    {"div_to_mul", div_to_mul},
    {"pow_to_mul", pow_to_mul},
    {"min_max_to_clip", min_max_to_clip},
    {"merge_clips", merge_clips},
    {"gather_to_slice", gather_to_slice},
    {"merge_slices", merge_slices},
    {"merge_reshapes", merge_reshapes},
    {"merge_transposes", merge_transposes},
    {"transpose_to_reshape", transpose_to_reshape},
    {"slice_before_reshape", slice_before_reshape},
    {"pool_to_reduce", pool_to_reduce},
    {"matmul_to_gemm", matmul_to_gemm},

    {"recompose_mish", recompose_mish},
    {"recompose_gelu", recompose_gelu},
    {"recompose_silu", recompose_silu},
    {"recompose_hard_sigmoid", recompose_hard_sigmoid},
    {"recompose_hard_swish", recompose_hard_swish},
    {"recompose_instance_norm", recompose_instance_norm},
    {"unwrap_instance_norm", unwrap_instance_norm},
    {"recompose_pixel_shuffle", recompose_pixel_shuffle},
    {"recompose_channel_shuffle", recompose_channel_shuffle},
    {"recompose_focus", recompose_focus},

    {"promote_half", promote_half},

    {"fold_pad_into_conv", fold_pad_into_conv},
    {"fold_pad_into_pool", fold_pad_into_pool},
    {"fold_space_to_depth_into_conv", fold_space_to_depth_into_conv},
    {"fold_affine_into_conv", fold_affine_into_conv},
    {"fold_affine_into_instance_norm", fold_affine_into_instance_norm},
    {"fold_affine_before_conv", fold_affine_before_conv},
    {"merge_affine", merge_affine},
    {"batch_norm_to_affine", batch_norm_to_affine},

    {"merge_common", merge_common},
};

std::vector<Pass> enabled_passes(const PassOptions& options) {
  std::vector<Pass> enabled(std::begin(kPasses), std::end(kPasses));
  std::vector<std::string> disabled = options.disabled;
  if (!options.promote_half) disabled.emplace_back("promote_half");
  for (const std::string& name : disabled) {
    const auto has_name = [&name](const Pass& pass) { return pass.name == name; };
    if (std::none_of(std::begin(kPasses), std::end(kPasses), has_name)) {
      fail(ErrorCode::kUsage, "there is no pass '{}'; the passes are {}", name,
           fmt::join(pass_names(), ", "));
    }
    std::erase_if(enabled, has_name);
  }
  return enabled;
}

/// Writes `graph` for whoever looks into the failure of `pass`; returns what to tell them.
std::string dump(const Graph& graph, std::string_view pass, const std::string& directory) {
  const std::string path = fmt::format("{}/before_{}.txt", directory, pass);
  std::ofstream file(path);
  file << print(graph) << std::flush;
  return file ? fmt::format("; the graph before it is in {}", path)
              : fmt::format("; cannot write {}", path);
}

/// Runs one pass and checks what it left. Returns the number of rewrites.
int run(const Pass& pass, Graph& graph, const PassOptions& options) {
  const bool dumps = !options.dump_directory.empty();
  const std::optional<Graph> before = dumps ? std::optional(graph) : std::nullopt;
  const auto rethrow = [&](ErrorCode code, const char* message) {
    const std::string where = before ? dump(*before, pass.name, options.dump_directory) : "";
    fail(code, "pass {}: {}{}", pass.name, message, where);
  };
  try {
    const int rewrites = pass.run(graph);
    if (rewrites == 0) return 0;
    graph.remove_dead();
    verify(graph, pass.name);
    return rewrites;
  } catch (const Exception& exception) {
    rethrow(exception.error().code, exception.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    rethrow(ErrorCode::kInternal, exception.what());
  }
  return 0;
}

}  // namespace

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  return names;
}

void simplify(Graph& graph, const PassOptions& options) {
  const std::vector<Pass> passes = enabled_passes(options);
  graph.remove_dead();
  for (int sweep = 0; sweep < kMaxRounds; ++sweep) {
    bool changed = false;
    for (const Pass& pass : passes) {
      const int rewrites = run(pass, graph, options);
      if (rewrites == 0) continue;
      changed = true;
      if (options.trace) options.trace({pass.name, sweep, rewrites, graph});
    }
    if (!changed) break;
  }
  settle_origins(graph);
}

}  // namespace braze
