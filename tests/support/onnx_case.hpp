// A test case in the ONNX layout: FOLDER/model.onnx, FOLDER/test_data_set_N/{input,output}_I.pb.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "braze/braze.hpp"

namespace braze::test {

struct DataSet {
  std::vector<Tensor> inputs;  // in the order of the model's inputs
  std::vector<Tensor> outputs;
};

/// The data sets of a case, by number.
std::vector<DataSet> read_data_sets(const std::filesystem::path& folder);

enum class Verdict { kPassed, kRefused, kWrong };

struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::string reason;  // of a refusal, or what is wrong
};

/// How close is right: |got - want| <= absolute + relative * |want|; with `of_range`, |want| is the
/// largest finite one of the output. NaN and infinities must match; integers and bools must be
/// equal.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
  bool of_range = false;
};

/// "" if the tensors agree, otherwise the first difference.
std::string difference(const Tensor& got, const Tensor& want, const Tolerance& tolerance);

/// Compiles and runs a case. Inputs whose values decide a shape are bound at compile time, as the
/// library's error asks.
Outcome run_case(const std::filesystem::path& folder, const Options& options,
                 const Tolerance& tolerance);

/// Operator types of a model's nodes, each once, sorted; empty for a file that is no model.
std::vector<std::string> operators_of(const std::filesystem::path& model);

/// Number of a model's nodes; 0 for a file that is no model.
std::size_t node_count_of(const std::filesystem::path& model);

/// Folders below `root` that hold a model.onnx, sorted; empty if `root` is not there.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& root);

}  // namespace braze::test
