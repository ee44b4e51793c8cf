// _braze: the library as Python sees it, as it is. The package's Python files make it pleasant.
#include "python/src/model.hpp"

NB_MODULE(_braze, m) {
  m.doc() = "Bindings of libbraze. Not an interface of its own: use the package braze.";
  braze::python::bind_records(m);
  braze::python::bind_model(m);
}
