# Two commands do all the set-up: `make demo` and `make test`. Both install what
# is missing (Debian 12) and build into build/, programs into build/bin.
BUILD ?= build
LLVM ?= /usr/lib/llvm-22
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=

.PHONY: all setup build demo test bench docs format lint clean
all: build

setup:
	@tools/setup.sh

$(BUILD)/build.ninja: | setup
	cmake -G Ninja -S . -B $(BUILD) -DCMAKE_C_COMPILER=$(LLVM)/bin/clang \
	  -DCMAKE_CXX_COMPILER=$(LLVM)/bin/clang++ -DCMAKE_PREFIX_PATH=$(LLVM) \
	  -DLLVM_USE_LINKER=lld $(CMAKE_FLAGS)

# The programs; `make test` builds the tests, too.
build: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS) tools/all

# What the compiler does with a real model, in under a minute.
demo: build
	@tools/demo.sh $(BUILD)

# lit's summary, then one line: N passed, N failed.
test: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)
	@tools/test.sh $(BUILD)

bench: build
	@tools/bench/run.sh $(BUILD)

# The generated reference: docs/Dialects and docs/Passes.
docs: setup
	@tools/docs.sh docs $(LLVM)/bin/mlir-tblgen $(LLVM)/include

format: setup
	@tools/lint.sh --fix

lint: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)
	@tools/lint.sh $(BUILD)

clean:
	rm -rf $(BUILD)
