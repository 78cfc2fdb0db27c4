/**
 * `npm run lint` finds files, exports and dependencies that nothing uses. What only tests use counts as used, but a file of
 * `src/` must also be reached from a program: `.dependency-cruiser.js`.
 */
import { PROGRAMS } from './scripts/programs.js'

export default {
  // Knip finds by itself what the scripts of package.json run.
  entry: [
    ...PROGRAMS.map((name) => `src/${name}.ts`),
    'scripts/*.js',
    'bench/*-process.ts',
    'faults/effects.ts',
    'clients/*.test.ts',
    'test/**/*.{test,system}.ts',
    // What tests run as a process, or load into one.
    'test/{clock-ahead,lock-holder}.ts',
    'test/cli/open-debugger.ts',
    'test/commands/issues/erasures/killed-erasure.ts',
    'test/{events,projections}/sqlite-writer.ts',
    'test/git/{print-memory-limits,socket-holder,print-object-type}.ts',
    'test/observability/log-writer.ts',
    'test/packaging/wrong-setting.ts',
  ],
  project: ['{bench,clients,faults,scripts,src,test}/**/*.{js,ts}'],
  // The parser of dependency-cruiser, a program that a test runs by its path, and texts that are read by their paths.
  ignoreDependencies: ['@swc/core', '@bufbuild/buf', 'spdx-license-list'],
  // Programs of the machine, such as gpg.
  exclude: ['binaries'],
}
