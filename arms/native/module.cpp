#include <nanobind/nanobind.h>
NB_MODULE(_sampling, m) { m.attr("__doc__") = "draftgate sampling law"; }
