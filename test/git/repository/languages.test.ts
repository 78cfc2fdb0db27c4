import t from 'tap'
import { languageOf } from '../../../src/git/repository/languages.ts'

t.test(
  'the file extension determines the language; data, prose and third-party files have none',
  async (t) => {
    const languages: Record<string, string | undefined> = {
      'src/main.ts': 'TypeScript',
      'a/B.GO': 'Go',
      Makefile: 'Makefile',
      'docker/Dockerfile': 'Dockerfile',
      'include/x.h': 'C',
      '.bash': 'Shell',
      'README.md': undefined,
      'package.json': undefined,
      'src/go': 'Go',
      LICENSE: undefined,
      'node_modules/a/index.js': undefined,
      'vendor/a.go': undefined,
      'my-vendor/a.go': 'Go',
      'lib/jquery.min.js': undefined,
      constructor: undefined,
      '': undefined,
    }
    for (const [path, language] of Object.entries(languages)) t.equal(languageOf(path), language, path)
  },
)
