/*===- NullDriver.c - A CUDA driver of a machine without GPUs -------------===*\
|*
|* libcuda.so.1 for the plan builder of cuDNN, which compiles for a device that
|* is described in text, but loads no library without a driver: 0 devices, and
|* everything else answers CUDA_ERROR_NO_DEVICE.
|*
\*===----------------------------------------------------------------------===*/

enum { SUCCESS = 0, NO_DEVICE = 100 };

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return SUCCESS;
}

int cuDeviceGetCount(int *count) {
  *count = 0;
  return SUCCESS;
}

int cuGetErrorName(int error, const char **name) {
  *name = error == SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_NO_DEVICE";
  return SUCCESS;
}

int cuGetErrorString(int error, const char **text) {
  *text = error == SUCCESS ? "no error" : "no CUDA-capable device is detected";
  return SUCCESS;
}

/* What cuDNN 9 looks up besides; it refuses a driver that lacks one. */
#define NAME(name)                                                             \
  int name(void) { return NO_DEVICE; }
#include "Names.def"
