# make demo   train a small multimodal model through the nested pipeline and look at what it learned
# make test   build and run every test
# make test-all  the same, with every case of the tests that otherwise take a part of them
# make install   into PREFIX, for find_package(bigmac)
# make bench  measure the scheduler, the simulator and the runtime
# make lint   clang-format and clang-tidy
# make fuzz   random steps and broken files against the scheduler and the parsers, for FUZZ_SECONDS each
# make asan, make tsan   the tests under sanitizers
.PHONY: all build dependencies demo test test-all install bench fuzz lint format asan tsan clean

BUILD := build/release
OUT := out/emoji
PREFIX := /usr/local

all: build

dependencies:
	@scripts/install-dependencies

build: dependencies
	@cmake --preset release
	@cmake --build --preset release

demo: build
	@$(BUILD)/bin/bigmac train configs/emoji.yaml --output $(OUT)
	@$(BUILD)/bin/bigmac sample $(OUT)/weights.safetensors

test: build
	@ctest --preset release

test-all: build
	@BIGMAC_ALL=1 BIGMAC_KILLS=50 BIGMAC_STARTS=200 ctest --preset release

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

bench: build
	@taskset -c 0 $(BUILD)/bin/bench_schedule
	@$(BUILD)/bin/bench_plan
	@$(BUILD)/bin/bench_runtime
	@$(BUILD)/bin/bench_sharding

fuzz: build
	@scripts/fuzz $(BUILD)

lint: build
	@scripts/lint $(BUILD)

format:
	@scripts/lint --fix

asan tsan: dependencies
	@cmake --preset $@
	@cmake --build --preset $@
	@ctest --preset $@

clean:
	rm -rf build out
