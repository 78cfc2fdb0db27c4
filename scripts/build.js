/**
 * `node scripts/build.js DIRECTORY` bundles src/ into a few files that Node starts fast: finding and linking a thousand
 * small modules takes 0.6 s. Types are checked by `npm test` and `npm run typecheck`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { decode, encode } from '@jridgewell/sourcemap-codec'
import { build } from 'esbuild'
import { PROGRAMS } from './programs.js'

/** Files at fixed paths below the directory, one folder deep as in src/, like the chunks that the programs share. */
const FILES_OF_THE_PROJECT = 'storage/project-files'
/** Modules that `bench/` loads to measure the build. */
const MEASURED = ['config/config', 'server/garbage-collection', 'server/server']

/** Packages of many small modules, which are bundled. Other packages are loaded from node_modules. */
const INCLUDED = ['typebox', '@fastify/type-provider-typebox']

/**
 * Packages that are loaded by `require`: on import, Node scans them for export names, which takes 0.15 s in generated
 * code.
 */
const REQUIRED = ['@eventstore/db-client']

const isOf = (packages, path) => packages.some((name) => path === name || path.startsWith(`${name}/`))

/** Keeps imports of other packages, and of Node's own modules. */
const packages = {
  name: 'packages',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      if (kind === 'entry-point' || isOf(INCLUDED, path)) return undefined
      return isOf(REQUIRED, path) ? { path, namespace: 'required' } : { path, external: true }
    })
    onLoad({ filter: /.*/, namespace: 'required' }, ({ path }) => ({
      contents: `module.exports = requireHere(${JSON.stringify(path)})`,
    }))
  },
}

/**
 * Reduces a source map to lines of src/. Node parses a map at the first stack trace: a full map blocked the event loop
 * for 150 ms and took 18 MB.
 */
function linesOf(map) {
  const isOurs = map.sources.map((source) => !source.includes('node_modules'))
  const firsts = decode(map.mappings).map((line) => {
    const [, source, sourceLine] = line.find((segment) => segment.length > 1) ?? []
    return isOurs[source] ? [[0, source, sourceLine, 0]] : []
  })
  return { ...map, names: [], mappings: encode(firsts) }
}

const { outputFiles } = await build({
  entryPoints: [...PROGRAMS, FILES_OF_THE_PROJECT, ...MEASURED].map((name) => `src/${name}.ts`),
  outdir: process.argv[2],
  outbase: 'src',
  chunkNames: 'shared/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  sourcemap: true,
  sourcesContent: false,
  write: false,
  plugins: [packages],
  // Created on first use: small programs need none.
  banner: {
    js: "const requireHere = (path) => process.getBuiltinModule('module').createRequire(import.meta.url)(path);",
  },
})

for (const { path, text } of outputFiles) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, path.endsWith('.map') ? JSON.stringify(linesOf(JSON.parse(text))) : text)
}
