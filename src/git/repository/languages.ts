/**
 * Counts the bytes of a commit's files by language. The names of languages are Linguist's, as in Gitea; data and prose do
 * not count. The file extension alone determines the language.
 */
import { createAnswerCache } from '../process/answer-cache.ts'
import type { GitSlot } from '../process/limits.ts'
import { rememberingFailure } from '../process/remembered-failures.ts'
import { gitOutput } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { checkedId } from '../refs/names.ts'

/** File extensions by language. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  Assembly: 'asm s',
  Batchfile: 'bat cmd',
  C: 'c h',
  'C#': 'cs',
  'C++': 'cc cpp cxx hh hpp hxx',
  CMake: 'cmake',
  CSS: 'css',
  Clojure: 'clj cljc cljs',
  CoffeeScript: 'coffee',
  Cuda: 'cu cuh',
  D: 'd',
  Dart: 'dart',
  Dockerfile: 'dockerfile',
  Elixir: 'ex exs',
  Elm: 'elm',
  Erlang: 'erl hrl',
  'F#': 'fs fsi fsx',
  Fortran: 'f90 f95 f03',
  GLSL: 'glsl',
  Go: 'go',
  Groovy: 'groovy gradle',
  HCL: 'hcl tf tfvars',
  HTML: 'htm html',
  Haskell: 'hs',
  Java: 'java',
  JavaScript: 'cjs js jsx mjs',
  Julia: 'jl',
  Kotlin: 'kt kts',
  Less: 'less',
  Lua: 'lua',
  Makefile: 'makefile mk',
  Nim: 'nim',
  Nix: 'nix',
  OCaml: 'ml mli',
  'Objective-C': 'm',
  'Objective-C++': 'mm',
  PHP: 'php',
  Pascal: 'pas',
  Perl: 'pl pm',
  PowerShell: 'ps1 psd1 psm1',
  Python: 'py pyi',
  R: 'r',
  Ruby: 'gemspec rake rb',
  Rust: 'rs',
  SCSS: 'scss',
  Sass: 'sass',
  Scala: 'sc scala',
  Scheme: 'scm',
  Shell: 'bash sh zsh',
  Solidity: 'sol',
  Svelte: 'svelte',
  Swift: 'swift',
  Tcl: 'tcl',
  TeX: 'sty tex',
  TypeScript: 'cts mts ts tsx',
  VHDL: 'vhd vhdl',
  Verilog: 'v',
  'Visual Basic .NET': 'vb',
  Vue: 'vue',
  XSLT: 'xsl xslt',
  Zig: 'zig',
}
const BY_EXTENSION = new Map(
  Object.entries(EXTENSIONS).flatMap(([name, ends]) => ends.split(' ').map((end) => [end, name])),
)

/** Third-party and generated files. */
const THIRD_PARTY = /(^|\/)(node_modules|vendor|third_party|dist)\/|\.min\.(js|css)$/

/** Bytes by language, in descending order. */
export type Languages = Readonly<Record<string, number>>

const counted = createAnswerCache<Languages>(10_000, (languages) => 1 + Object.keys(languages).length)

/** @throws GitFailed for an unknown commit, GitTooSlow; a later call throws the same without running git */
export function languagesOf(
  dir: string,
  commit: string,
  { signal, ...options }: Partial<GitSlot> = {},
): Promise<Languages> {
  const args = ['ls-tree', '-r', '-l', '-z', '--full-tree', checkedId(commit)]
  const key = `${dir}\0${commit}`
  return counted(
    key,
    (unwanted) =>
      rememberingFailure(`${key}\0languages`, async () => {
        const bytes = new Map<string, number>()
        const onOutput = splitAt(0, (line) => count(line.toString('utf8'), bytes))
        await gitOutput(args, { ...options, dir, signal: unwanted, onOutput })
        return Object.fromEntries([...bytes].sort(([, one], [, other]) => other - one))
      }),
    signal,
  )
}

/** Adds a line of the form `<mode> blob <id> <size>TAB<path>`. Links and submodules do not count. */
function count(line: string, bytes: Map<string, number>): void {
  const [, size = '', path = ''] = /^100\d{3} blob \S+ +(\d+)\t(.*)$/s.exec(line) ?? []
  const language = languageOf(path)
  if (language !== undefined && size !== '0') bytes.set(language, (bytes.get(language) ?? 0) + Number(size))
}

/** Returns the language of a file; undefined for data, prose, and third-party files. */
export function languageOf(path: string): string | undefined {
  if (THIRD_PARTY.test(path)) return undefined
  // For a name without a dot (`Makefile`), the whole name.
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  return BY_EXTENSION.get(name.slice(name.lastIndexOf('.') + 1))
}
