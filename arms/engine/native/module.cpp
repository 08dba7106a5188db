#include <nanobind/nanobind.h>
NB_MODULE(_native, m) { m.attr("__doc__") = "draftgate engine"; }
