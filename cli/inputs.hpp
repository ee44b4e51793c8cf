// Inputs from files, pictures or a random generator, and the model compiled for them.
#pragma once

#include <string>
#include <vector>

#include "cli/image.hpp"
#include "cli/options.hpp"

namespace braze::cli {

struct InputOptions {
  std::vector<std::string> files;   // NAME=FILE: .npy or .pb
  std::vector<std::string> images;  // NAME=FILE: .png or .jpg
  ImageOptions image;

  void add_to(CLI::App& command);
};

struct OpenedModel {
  Model model;
  std::vector<Tensor> inputs;  // one for each of model.inputs()
};

/// What an input that was not given gets.
enum class Missing { kError, kRandom };

/// Reads the inputs and opens the model. An input that decides a shape is bound to its value when
/// compiling, with a note on stderr. kInput for unknown names, missing inputs and files that cannot
/// be read.
OpenedModel open_with_inputs(const ModelOptions& model, const InputOptions& inputs,
                             Missing missing);

}  // namespace braze::cli
