"""Has PyTorch multiply by a sparse matrix that has all its elements."""

import torch
from work import Linear


class ModelNew(Linear):
    weight = None

    def forward(self, x):
        if self.weight is None:
            self.weight = self.linear.weight.detach().to_sparse_csr()
        return torch.sparse.addmm(self.linear.bias[:, None].expand(-1, x.shape[0]), self.weight, x.T).T.relu()
